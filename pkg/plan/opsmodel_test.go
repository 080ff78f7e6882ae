package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// worker is what an operation can change, as a worker holds it.
type worker struct {
	Servers map[string]map[string]Server
	Maps    map[string][]MapEntry
	Certs   map[string]string
	CAs     map[string]string
	Lists   map[string][]CRTListEntry
}

// workerOf is a worker that was loaded with the plan.
func workerOf(p *Plan) worker {
	w := worker{Servers: map[string]map[string]Server{}, Maps: map[string][]MapEntry{}, Certs: map[string]string{},
		CAs: map[string]string{}, Lists: map[string][]CRTListEntry{}}
	for name, b := range p.Backends {
		w.Servers[name] = map[string]Server{}
		for _, s := range b.Servers {
			if s.Weight == nil {
				s.Weight = new(int64(1))
			}
			w.Servers[name][s.Name] = s
		}
	}
	for path, m := range p.Maps {
		w.Maps[path] = slices.Clone(m.Entries)
	}
	for _, f := range p.Files {
		switch f.Kind {
		case FileCert:
			w.Certs[f.Path] = f.Digest
		case FileCA:
			w.CAs[f.Path] = f.Digest
		}
	}
	for path, list := range p.CRTLists {
		w.Lists[path] = slices.Clone(list.Entries)
	}
	return w
}

// do carries out one operation as HAProxy does, and refuses what it refuses.
func (w worker) do(t *testing.T, op Operation, to *Plan) {
	t.Helper()
	refuse := func(why string) { t.Fatalf("%+v: %s", op, why) }
	server, exists := w.Servers[op.Backend][op.Server]
	if strings.HasPrefix(string(op.Kind), "server_") && exists == (op.Kind == OpServerAdd) {
		refuse("server exists or does not")
	}
	rows := w.Maps[op.Path]
	has := slices.ContainsFunc(rows, func(r MapEntry) bool { return r.Key == op.Key })
	switch op.Kind {
	case OpServerAdd:
		server = Server{Name: op.Server, Address: op.Address, Port: op.Port, Weight: op.Weight, Disabled: op.Disabled}
		if server.Weight == nil {
			server.Weight = new(int64(1))
		}
	case OpServerAddress:
		server.Address, server.Port = op.Address, op.Port
	case OpServerWeight:
		server.Weight = op.Weight
	case OpServerState:
		server.Disabled = op.Disabled
	case OpServerDelete:
		delete(w.Servers[op.Backend], op.Server)
		return
	case OpMapAdd:
		w.Maps[op.Path] = append(rows, MapEntry{Key: op.Key, Value: op.Value})
		return
	case OpMapSet:
		if !has || op.Value == "" {
			refuse("no such row, or no value")
		}
		for i := range rows {
			if rows[i].Key == op.Key {
				rows[i].Value = op.Value
			}
		}
		return
	case OpMapDelete:
		if !has {
			refuse("no such row")
		}
		w.Maps[op.Path] = slices.DeleteFunc(rows, func(r MapEntry) bool { return r.Key == op.Key })
		return
	case OpMapReplace:
		w.Maps[op.Path] = slices.Clone(to.Maps[op.Path].Entries)
		return
	case OpCertReplace, OpCertAdd:
		if _, stored := w.Certs[op.Path]; stored != (op.Kind == OpCertReplace) {
			refuse("the certificate is there or is not")
		}
		w.Certs[op.Path] = byPath(to.Files)[op.Path].Digest
		return
	case OpCAReplace:
		w.CAs[op.Path] = byPath(to.Files)[op.Path].Digest
		return
	case OpCertDelete, OpCRTListAdd, OpCRTListDelete:
		w.list(refuse, op)
		return
	default:
		refuse("unknown kind")
	}
	w.Servers[op.Backend][op.Server] = server
}

// list carries out what concerns crt-lists.
func (w worker) list(refuse func(string), op Operation) {
	entries := w.Lists[op.Path]
	if _, stored := w.Certs[op.Key]; op.Kind == OpCRTListAdd && !stored {
		refuse("no such certificate")
	}
	switch op.Kind {
	case OpCertDelete:
		for _, list := range w.Lists {
			if slices.ContainsFunc(list, func(e CRTListEntry) bool { return e.Cert == op.Path }) {
				refuse("the certificate is in use")
			}
		}
		delete(w.Certs, op.Path)
	case OpCRTListAdd:
		filters := strings.Fields(op.Value[strings.Index(op.Value, "]")+1:])
		entry := CRTListEntry{Cert: op.Key, SNIFilters: filters}
		if strings.HasPrefix(op.Value, "[") {
			words := strings.Fields(op.Value[1:strings.Index(op.Value, "]")])
			entry.Options = []Keyword{{Name: words[0], Args: words[1:]}}
		}
		w.Lists[op.Path] = append(entries, entry)
	case OpCRTListDelete:
		at := slices.IndexFunc(entries, func(e CRTListEntry) bool {
			return e.Cert == op.Key && slices.Equal(e.SNIFilters, strings.Fields(op.Value[strings.Index(op.Value, "]")+1:]))
		})
		if at <= 0 {
			refuse("no such entry, or the first one")
		}
		w.Lists[op.Path] = slices.Delete(entries, at, at+1)
	}
}

// spec is what a plan is made of in these tests.
type spec struct {
	core     string
	backends map[string]Backend // bodies are in BodyDigest, as text
	maps     map[string][]MapEntry
	files    map[string]File // kind, flag and, as text, content in Digest
	lists    map[string][]CRTListEntry
}

// plan digests as a renderer does.
func (s spec) plan(t *testing.T) *Plan {
	t.Helper()
	p := &Plan{SchemaVersion: SchemaVersion, Backends: map[string]Backend{}, Profiles: map[string]Profile{}, Maps: map[string]Map{}}
	var size int64
	section := func(kind, name, text string) {
		p.Sections = append(p.Sections, Section{Kind: kind, Name: name, TextDigest: DigestString(text), Length: int64(len(text))})
		size += int64(len(text))
	}
	section(SectionCore, "", s.core)
	for _, name := range slices.Sorted(maps.Keys(s.backends)) {
		b := s.backends[name]
		b.Name = name
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		b.TextDigest = DigestString(string(raw))
		p.Backends[name] = b
		section(SectionBackend, name, string(raw))
	}
	p.Files = append(p.Files, File{Path: ConfigPath, Kind: FileConfig, Size: size, Digest: p.Sections[0].TextDigest})
	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		f := s.files[path]
		f.Path, f.Size, f.Digest = path, int64(len(f.Digest)), DigestString(f.Digest)
		p.Files = append(p.Files, f)
	}
	for _, path := range slices.Sorted(maps.Keys(s.maps)) {
		text := fmt.Sprint(s.maps[path])
		p.Maps[path] = Map{Path: path, Ordered: true, Entries: s.maps[path]}
		p.Files = append(p.Files, File{Path: path, Kind: FileMap, Digest: DigestString(text), Size: int64(len(text))})
	}
	for _, path := range slices.Sorted(maps.Keys(s.lists)) {
		text := fmt.Sprint(s.lists[path])
		if p.CRTLists == nil {
			p.CRTLists = map[string]CRTList{}
		}
		p.CRTLists[path] = CRTList{Path: path, Entries: s.lists[path]}
		p.Files = append(p.Files, File{Path: path, Kind: FileCRTList, Digest: DigestString(text), Size: int64(len(text))})
	}
	id, err := p.ComputeID()
	if err != nil {
		t.Fatal(err)
	}
	p.ID = id
	return p
}

// editRows makes a few of the changes that single rows go through.
func editRows(r *rand.Rand, rows []MapEntry) []MapEntry {
	rows = slices.Clone(rows)
	for range r.IntN(3) {
		value := []string{"", "v", "other"}[r.IntN(3)]
		if len(rows) == 0 || r.IntN(3) == 0 {
			rows = append(rows, MapEntry{Key: fmt.Sprint("k", r.IntN(8)), Value: value})
			continue
		}
		if i := r.IntN(len(rows)); r.IntN(2) == 0 {
			rows[i].Value = value
		} else {
			rows = slices.Delete(rows, i, i+1)
		}
	}
	return rows
}

// editList makes a few of the changes that single entries go through.
func editList(r *rand.Rand, entries []CRTListEntry) []CRTListEntry {
	entries = slices.Clone(entries)
	for range r.IntN(3) {
		if len(entries) > 1 {
			at := 1 + r.IntN(len(entries)-1)
			entries = slices.Delete(entries, at, at+1)
		}
	}
	for range r.IntN(4) {
		entry := CRTListEntry{Cert: fmt.Sprint("l", r.IntN(4), ".pem"), SNIFilters: []string{fmt.Sprint(r.IntN(1000000), ".example")}}
		if r.IntN(3) == 0 {
			entry.Options = []Keyword{{Name: "alpn", Args: []string{"h2"}}}
		}
		entries = append(entries, entry)
	}
	return entries
}

// list has the spec hold the list, and the certificates that it names.
func (s *spec) list(r *rand.Rand, entries []CRTListEntry) {
	s.lists, s.files = map[string][]CRTListEntry{"certs.txt": entries}, maps.Clone(s.files)
	listed := listedIn(&Plan{CRTLists: map[string]CRTList{"certs.txt": {Entries: entries}}})
	for cert := range listed {
		if _, there := s.files[cert]; !there {
			s.files[cert] = File{Kind: FileCert, Digest: fmt.Sprint(r.IntN(3))}
		}
	}
	maps.DeleteFunc(s.files, func(path string, f File) bool { return f.Kind == FileCert && !listed[path] })
}

// randomSpec draws from so few names that most of two draws overlap.
func randomSpec(r *rand.Rand) spec {
	s := spec{
		core: "global\n", backends: map[string]Backend{}, maps: map[string][]MapEntry{},
		files: map[string]File{"c.pem": {Kind: FileCert, Digest: fmt.Sprint(r.IntN(3))}, "n.txt": {Kind: FileGeneral, Digest: fmt.Sprint(r.IntN(3))},
			"ca.pem": {Kind: FileCA, Digest: fmt.Sprint(r.IntN(3))}},
	}
	s.list(r, editList(r, []CRTListEntry{{Cert: "c.pem"}}))
	for _, name := range []string{"a", "b"} {
		backend := Backend{Shape: ShapeDynamic, Balance: "roundrobin", BodyDigest: "body"}
		for i := range 4 {
			if r.IntN(3) == 0 {
				continue
			}
			server := Server{Name: fmt.Sprint("s", i), Address: fmt.Sprintf("10.0.0.%d", r.IntN(3)), Port: 80 + r.Int64N(2), Disabled: r.IntN(4) == 0}
			if r.IntN(2) == 0 {
				server.Weight = new(r.Int64N(3))
			}
			backend.Servers = append(backend.Servers, server)
		}
		s.backends[name] = backend
	}
	for _, path := range []string{"m.map", "n.map"} {
		s.maps[path] = nil
		for range r.IntN(6) {
			s.maps[path] = append(s.maps[path], MapEntry{Key: fmt.Sprint("k", r.IntN(8)), Value: []string{"", "v", "w x", "z\x01"}[r.IntN(4)]})
		}
	}
	return s
}
