package plan

// OperationKind says what an Operation changes in a running worker.
type OperationKind string

// Kinds of operations.
const (
	// OpServerAddress gives a server another address and port.
	OpServerAddress OperationKind = "server_address"
	// OpServerWeight gives a server another weight.
	OpServerWeight OperationKind = "server_weight"
	// OpServerState puts a server into maintenance, or takes it out.
	OpServerState OperationKind = "server_state"
	// OpServerAdd adds a server to a backend that is there.
	OpServerAdd OperationKind = "server_add"
	// OpServerDelete removes a server.
	OpServerDelete OperationKind = "server_delete"
	// OpMapSet gives the rows of a key another value, in place.
	OpMapSet OperationKind = "map_set"
	// OpMapAdd appends a row.
	OpMapAdd OperationKind = "map_add"
	// OpMapDelete removes the rows of a key.
	OpMapDelete OperationKind = "map_delete"
	// OpMapReplace replaces all rows by those of the map's new file.
	OpMapReplace OperationKind = "map_replace"
	// OpCertReplace replaces a certificate by its new file.
	OpCertReplace OperationKind = "cert_replace"
	// OpCertAdd stores a new certificate, which nothing uses yet.
	OpCertAdd OperationKind = "cert_add"
	// OpCertDelete removes a certificate that nothing uses any more.
	OpCertDelete OperationKind = "cert_delete"
	// OpCRTListAdd appends an entry to a crt-list.
	OpCRTListAdd OperationKind = "crtlist_add"
	// OpCRTListDelete removes an entry from a crt-list.
	OpCRTListDelete OperationKind = "crtlist_delete"
	// OpCAReplace replaces a file of authorities, or of revocations, by its new
	// file.
	OpCAReplace OperationKind = "ca_replace"
)

// OperationKinds are all kinds, in the order in which they are declared.
func OperationKinds() []OperationKind {
	return []OperationKind{
		OpServerAddress, OpServerWeight, OpServerState, OpServerAdd, OpServerDelete,
		OpMapSet, OpMapAdd, OpMapDelete, OpMapReplace, OpCertReplace,
		OpCertAdd, OpCertDelete, OpCRTListAdd, OpCRTListDelete, OpCAReplace,
	}
}

// MaxOperations bounds one composition. More than that is what a reload is for.
const MaxOperations = 1000

// Operation is one change of a running worker. Whole files are never part of
// it: who carries it out has the new ones, and keys stay out of requests.
type Operation struct {
	Kind OperationKind `json:"kind"`

	// Of a server.
	Backend  string `json:"backend,omitempty"`
	Server   string `json:"server,omitempty"`
	Address  string `json:"address,omitempty"`
	Port     int64  `json:"port,omitempty"`
	Weight   *int64 `json:"weight,omitempty"`
	Disabled bool   `json:"disabled,omitempty"`

	// Of a file that the worker has loaded. Key and Value are those of a row, or
	// the certificate of a crt-list's entry and the rest of its line.
	Path  string `json:"path,omitempty"`
	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"`
}

// Compose finds the operations that bring a worker from one plan to another. It
// reports true only when they, perhaps none, cover the whole difference as far
// as workers know it; everything else needs a reload. The order is that in
// which they have to be carried out, and the same for the same plans.
func Compose(from, to *Plan) ([]Operation, bool) {
	c := composition{from: from, to: to}
	switch {
	case from == nil || to == nil,
		from.SchemaVersion != SchemaVersion || to.SchemaVersion != SchemaVersion,
		!c.sameFrame(), !c.backends(), !c.files():
		return nil, false
	}
	return c.ops, true
}

// composition is the operations found so far.
type composition struct {
	from, to *Plan
	ops      []Operation
}

// add appends and reports whether the bound allows it.
func (c *composition) add(ops ...Operation) bool {
	if len(c.ops)+len(ops) > MaxOperations {
		return false
	}
	c.ops = append(c.ops, ops...)
	return true
}
