package plan

// SchemaVersion is the only plan format this package reads and writes. A plan
// of another version is unknown as a whole and never decoded in part.
const SchemaVersion = 1

// ConfigPath is the runtime path of the configuration in every plan.
const ConfigPath = "haproxy.cfg"

// Kinds of sections.
const (
	SectionCore    = "core"
	SectionProfile = "profile"
	SectionBackend = "backend"
)

// Shapes of backends. A dynamic one can be created and filled over HAProxy's
// runtime API, a structural one needs a reload.
const (
	ShapeDynamic    = "dynamic"
	ShapeStructural = "structural"
)

// Kinds of files.
const (
	FileConfig  = "config"
	FileMap     = "map"
	FileCert    = "cert"
	FileCA      = "ca"
	FileCRTList = "crtlist"
	FileGeneral = "general"
)

// Plan is the structure of one output. The order of its fields and their JSON
// options are part of the wire format: the ID is a digest of the encoding, in
// which null and an empty list differ, so nil is kept apart from empty.
type Plan struct {
	SchemaVersion int                `json:"schemaVersion"`
	ID            string             `json:"id"`
	Sections      []Section          `json:"sections"`
	Backends      map[string]Backend `json:"backends"`
	Profiles      map[string]Profile `json:"profiles"`
	Maps          map[string]Map     `json:"maps"`
	CRTLists      map[string]CRTList `json:"crtLists,omitempty"`
	Files         []File             `json:"files"`
}

// Section is one contiguous run of the configuration. All sections in order
// are the configuration, without gap or rest.
type Section struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	TextDigest string `json:"textDigest"`
	Length     int64  `json:"length"`
}

// Backend is the record a backend section was generated from.
type Backend struct {
	Name          string    `json:"name"`
	Profile       string    `json:"profile,omitempty"`
	Mode          string    `json:"mode,omitempty"`
	GUID          string    `json:"guid,omitempty"`
	Balance       string    `json:"balance,omitempty"`
	HashType      string    `json:"hashType,omitempty"`
	Shape         string    `json:"shape"`
	ShapeReason   string    `json:"shapeReason,omitempty"`
	Servers       []Server  `json:"servers,omitempty"`
	DefaultServer []Keyword `json:"defaultServer,omitempty"`

	BodyDigest     string `json:"bodyDigest"`
	CommentsDigest string `json:"commentsDigest"`
	RecordDigest   string `json:"recordDigest"`
	TextDigest     string `json:"textDigest"`
}

// Server is one server line as data.
type Server struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Port    int64  `json:"port"`
	// Weight is nil when the line has no weight; 0 is a real weight.
	Weight   *int64    `json:"weight,omitempty"`
	Disabled bool      `json:"disabled,omitempty"`
	GUID     string    `json:"guid,omitempty"`
	Comment  string    `json:"comment,omitempty"`
	Extra    []Keyword `json:"extra,omitempty"`
}

// Keyword is a keyword with its arguments, so that nobody has to parse lines.
type Keyword struct {
	Name string   `json:"name"`
	Args []string `json:"args,omitempty"`
}

// Profile is a named defaults section that backends share.
type Profile struct {
	Name       string `json:"name"`
	BodyDigest string `json:"bodyDigest"`
	HasRules   bool   `json:"hasRules,omitempty"`
}

// Map is the entry list of one map file.
type Map struct {
	Path    string     `json:"path"`
	Ordered bool       `json:"ordered"`
	Entries []MapEntry `json:"entries,omitempty"`
}

// MapEntry is one line of a map: its key and the rest of the line.
type MapEntry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// CRTList is the entry list of one crt-list file.
type CRTList struct {
	Path    string         `json:"path"`
	Entries []CRTListEntry `json:"entries,omitempty"`
}

// CRTListEntry is one line of a crt-list.
type CRTListEntry struct {
	Cert       string    `json:"cert"`
	Options    []Keyword `json:"options,omitempty"`
	SNIFilters []string  `json:"sniFilters,omitempty"`
}

// File is one file of the output, the configuration included. Path is the
// runtime path, relative to the set.
type File struct {
	Path           string `json:"path"`
	Kind           string `json:"kind"`
	ReloadOnChange bool   `json:"reloadOnChange"`
	Digest         string `json:"digest"`
	Size           int64  `json:"size"`
}
