package plan

// Members in the order of the wire format.
var (
	planMembers    = []string{"schemaVersion", "id", "sections", "backends", "profiles", "maps", "crtLists", "files"}
	sectionMembers = []string{"kind", "name", "textDigest", "length"}
	backendMembers = []string{
		"name", "profile", "mode", "guid", "balance", "hashType", "shape", "shapeReason", "servers",
		"defaultServer", "bodyDigest", "commentsDigest", "recordDigest", "textDigest",
	}
	serverMembers   = []string{"name", "address", "port", "weight", "disabled", "guid", "comment", "extra"}
	keywordMembers  = []string{"name", "args"}
	profileMembers  = []string{"name", "bodyDigest", "hasRules"}
	mapMembers      = []string{"path", "ordered", "entries"}
	entryMembers    = []string{"key", "value"}
	crtListMembers  = []string{"path", "entries"}
	crtEntryMembers = []string{"cert", "options", "sniFilters"}
	fileMembers     = []string{"path", "kind", "reloadOnChange", "digest", "size"}
)

// About what values occupy in memory, in bytes, places in slices and maps included.
const (
	sectionSize  = 64
	backendSize  = 320
	serverSize   = 160
	keywordSize  = 48
	profileSize  = 96
	mapSize      = 96
	entrySize    = 32
	crtListSize  = 80
	crtEntrySize = 72
	fileSize     = 80
	stringSize   = 16
	pointerSize  = 8
)

// reader reads a plan by its members.
type reader struct {
	*Scanner
	// idStart and idEnd enclose the value of the last top-level id.
	idStart, idEnd int
	// sections and files count all that were begun, so that reading ends at the bound.
	sections, files int
}

func (r *reader) plan() *Plan {
	p := &Plan{}
	r.Record("", planMembers, func(i int) {
		switch i {
		case 0:
			p.SchemaVersion = r.schemaVersion()
		case 1:
			r.peek()
			r.idStart = r.pos
			p.ID = r.String()
			r.idEnd = r.pos
		case 2:
			p.Sections = readList(r.Scanner, sectionSize, r.section)
		case 3:
			p.Backends = readMap(r.Scanner, "backends.", backendSize, r.backend)
		case 4:
			p.Profiles = readMap(r.Scanner, "profiles.", profileSize, r.profile)
		case 5:
			p.Maps = readMap(r.Scanner, "maps.", mapSize, r.mapFile)
		case 6:
			p.CRTLists = readMap(r.Scanner, "crtLists.", crtListSize, r.crtList)
		case 7:
			p.Files = readList(r.Scanner, fileSize, r.file)
		}
	})
	return p
}

// schemaVersion ends the reading of any other version at once.
func (r *reader) schemaVersion() int {
	version := r.Int()
	if r.err == nil && version != SchemaVersion {
		r.Abort(&SchemaError{Version: version})
	}
	return int(version)
}

// count ends the reading at the first element beyond a bound.
func (r *reader) count(counter *int, what string, limit int) {
	if *counter++; *counter > limit {
		r.Abort(&BoundError{What: what, Limit: int64(limit)})
	}
}

func (r *reader) section(v *Section) {
	r.count(&r.sections, BoundSections, MaxSections)
	r.Record("sections.*.", sectionMembers, func(i int) {
		switch i {
		case 0:
			v.Kind = r.String()
		case 1:
			v.Name = r.String()
		case 2:
			v.TextDigest = r.String()
		case 3:
			v.Length = r.Int()
		}
	})
}

func (r *reader) backend(v *Backend) {
	r.Record("backends.*.", backendMembers, func(i int) {
		switch i {
		case 0:
			v.Name = r.String()
		case 1:
			v.Profile = r.String()
		case 2:
			v.Mode = r.String()
		case 3:
			v.GUID = r.String()
		case 4:
			v.Balance = r.String()
		case 5:
			v.HashType = r.String()
		case 6:
			v.Shape = r.String()
		case 7:
			v.ShapeReason = r.String()
		case 8:
			v.Servers = readList(r.Scanner, serverSize, r.server)
		case 9:
			v.DefaultServer = r.keywords()
		case 10:
			v.BodyDigest = r.String()
		case 11:
			v.CommentsDigest = r.String()
		case 12:
			v.RecordDigest = r.String()
		case 13:
			v.TextDigest = r.String()
		}
	})
}

func (r *reader) server(v *Server) {
	r.Record("backends.*.servers.*.", serverMembers, func(i int) {
		switch i {
		case 0:
			v.Name = r.String()
		case 1:
			v.Address = r.String()
		case 2:
			v.Port = r.Int()
		case 3:
			v.Weight = r.weight()
		case 4:
			v.Disabled = r.Bool()
		case 5:
			v.GUID = r.String()
		case 6:
			v.Comment = r.String()
		case 7:
			v.Extra = r.keywords()
		}
	})
}

// weight keeps no weight apart from a weight of 0.
func (r *reader) weight() *int64 {
	if r.Null() {
		return nil
	}
	r.Charge(pointerSize)
	weight := r.Int()
	return &weight
}

func (r *reader) keywords() []Keyword {
	return readList(r.Scanner, keywordSize, func(v *Keyword) {
		r.Record("keywords.*.", keywordMembers, func(i int) {
			switch i {
			case 0:
				v.Name = r.String()
			case 1:
				v.Args = r.Strings()
			}
		})
	})
}

func (r *reader) profile(v *Profile) {
	r.Record("profiles.*.", profileMembers, func(i int) {
		switch i {
		case 0:
			v.Name = r.String()
		case 1:
			v.BodyDigest = r.String()
		case 2:
			v.HasRules = r.Bool()
		}
	})
}

func (r *reader) mapFile(v *Map) {
	r.Record("maps.*.", mapMembers, func(i int) {
		switch i {
		case 0:
			v.Path = r.String()
		case 1:
			v.Ordered = r.Bool()
		case 2:
			v.Entries = readList(r.Scanner, entrySize, r.mapEntry)
		}
	})
}

func (r *reader) mapEntry(v *MapEntry) {
	r.Record("maps.*.entries.*.", entryMembers, func(i int) {
		switch i {
		case 0:
			v.Key = r.String()
		case 1:
			v.Value = r.String()
		}
	})
}

func (r *reader) crtList(v *CRTList) {
	r.Record("crtLists.*.", crtListMembers, func(i int) {
		switch i {
		case 0:
			v.Path = r.String()
		case 1:
			v.Entries = readList(r.Scanner, crtEntrySize, r.crtEntry)
		}
	})
}

func (r *reader) crtEntry(v *CRTListEntry) {
	r.Record("crtLists.*.entries.*.", crtEntryMembers, func(i int) {
		switch i {
		case 0:
			v.Cert = r.String()
		case 1:
			v.Options = r.keywords()
		case 2:
			v.SNIFilters = r.Strings()
		}
	})
}

func (r *reader) file(v *File) {
	r.count(&r.files, BoundFiles, MaxFiles)
	r.Record("files.*.", fileMembers, func(i int) {
		switch i {
		case 0:
			v.Path = r.String()
		case 1:
			v.Kind = r.String()
		case 2:
			v.ReloadOnChange = r.Bool()
		case 3:
			v.Digest = r.String()
		case 4:
			v.Size = r.Int()
		}
	})
}
