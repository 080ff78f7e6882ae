package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func fixed() spec {
	return spec{
		core: "global\n",
		backends: map[string]Backend{
			"b": {Shape: ShapeDynamic, Balance: "roundrobin", BodyDigest: "x", Servers: []Server{
				{Name: "s1", Address: "10.0.0.1", Port: 80}, {Name: "s2", Address: "10.0.0.2", Port: 80, Weight: new(int64(5))},
			}},
			"checked": {Shape: ShapeStructural, Servers: []Server{
				{Name: "s1", Address: "10.0.0.1", Port: 80, Extra: []Keyword{{Name: "check", Args: []string{"inter", "2s"}}}},
			}},
			"named": {Shape: ShapeStructural, Servers: []Server{{Name: "s1", Address: "host.example", Port: 80}}},
			"hash":  {Shape: ShapeStructural, Balance: "source", Servers: []Server{{Name: "s1", Address: "10.0.0.1", Port: 80}, {Name: "s2", Address: "10.0.0.2", Port: 80}}},
		},
		maps: map[string][]MapEntry{"m.map": {{Key: "k1", Value: "a"}, {Key: "k2", Value: "b"}, {Key: "k3", Value: "c"}}},
		files: map[string]File{
			"c.pem": {Kind: FileCert, Digest: "one"}, "ca.pem": {Kind: FileCA, Digest: "one"}, "l.txt": {Kind: FileCRTList, Digest: "one"},
			"d.pem": {Kind: FileCert, Digest: "one"}, "note.txt": {Kind: FileGeneral, Digest: "one"}, "page.http": {Kind: FileGeneral, ReloadOnChange: true, Digest: "one"},
			"r.pem": {Kind: FileCert, ReloadOnChange: true, Digest: "one"},
		},
		lists: map[string][]CRTListEntry{"list.txt": {{Cert: "c.pem"}, {Cert: "d.pem", SNIFilters: []string{"d.example"}}, {Cert: "c.pem", SNIFilters: []string{"c.example"}}}},
	}
}

// backend changes one backend of a spec.
func backend(name string, change func(*Backend)) func(*spec) {
	return func(s *spec) {
		b := s.backends[name]
		b.Servers = slices.Clone(b.Servers)
		change(&b)
		s.backends[name] = b
	}
}

func content(path, text string) func(*spec) {
	return func(s *spec) {
		f := s.files[path]
		f.Digest = text
		s.files[path] = f
	}
}

func rows(rows ...MapEntry) func(*spec) { return func(s *spec) { s.maps["m.map"] = rows } }

func entries(entries ...CRTListEntry) func(*spec) {
	return func(s *spec) { s.lists = map[string][]CRTListEntry{"list.txt": entries} }
}

func TestCompose(t *testing.T) {
	many := make([]MapEntry, maxRowOperations+4)
	for i := range many {
		many[i] = MapEntry{Key: fmt.Sprint("k", i), Value: "x"}
	}
	replace := []Operation{{Kind: OpMapReplace, Path: "m.map"}}
	tests := []struct {
		name   string
		change func(*spec)
		want   []Operation
		reload bool
	}{
		{name: "nothing changed", change: func(*spec) {}},
		{name: "another address", change: backend("b", func(b *Backend) { b.Servers[0].Address = "10.0.0.9" }),
			want: []Operation{{Kind: OpServerAddress, Backend: "b", Server: "s1", Address: "10.0.0.9", Port: 80}}},
		{name: "another port of a checked server", change: backend("checked", func(b *Backend) { b.Servers[0].Port = 81 }),
			want: []Operation{{Kind: OpServerAddress, Backend: "checked", Server: "s1", Address: "10.0.0.1", Port: 81}}},
		{name: "a weight of zero", change: backend("b", func(b *Backend) { b.Servers[0].Weight = new(int64(0)) }),
			want: []Operation{{Kind: OpServerWeight, Backend: "b", Server: "s1", Weight: new(int64(0))}}},
		{name: "no weight any more", change: backend("b", func(b *Backend) { b.Servers[1].Weight = nil }),
			want: []Operation{{Kind: OpServerWeight, Backend: "b", Server: "s2", Weight: new(int64(1))}}},
		{name: "maintenance", change: backend("b", func(b *Backend) { b.Servers[0].Disabled = true }),
			want: []Operation{{Kind: OpServerState, Backend: "b", Server: "s1", Disabled: true}}},
		{name: "one server for another, additions first", change: backend("b", func(b *Backend) {
			b.Servers[0] = Server{Name: "s0", Address: "::1", Port: 1, Disabled: true}
		}),
			want: []Operation{{Kind: OpServerAdd, Backend: "b", Server: "s0", Address: "::1", Port: 1, Disabled: true}, {Kind: OpServerDelete, Backend: "b", Server: "s1"}}},
		{name: "comments alone", change: backend("b", func(b *Backend) { b.CommentsDigest = "other" })},
		{name: "a new row", change: rows(MapEntry{"k1", "a"}, MapEntry{"k2", "b"}, MapEntry{"k3", "c"}, MapEntry{"k ü", "d"}),
			want: []Operation{{Kind: OpMapAdd, Path: "m.map", Key: "k ü", Value: "d"}}},
		{name: "rows deleted, set and added", change: rows(MapEntry{"k2", "x y"}, MapEntry{"k3", "c"}, MapEntry{"k3", "d"}),
			want: []Operation{{Kind: OpMapDelete, Path: "m.map", Key: "k1"}, {Kind: OpMapSet, Path: "m.map", Key: "k2", Value: "x y"}, {Kind: OpMapAdd, Path: "m.map", Key: "k3", Value: "d"}}},
		{name: "another order of rows", change: rows(MapEntry{"k2", "b"}, MapEntry{"k1", "a"}, MapEntry{"k3", "c"}), want: replace},
		{name: "a row in the middle", change: rows(MapEntry{"k1", "a"}, MapEntry{"new", ""}, MapEntry{"k2", "b"}, MapEntry{"k3", "c"}), want: replace},
		{name: "a value that is gone", change: rows(MapEntry{"k1", ""}, MapEntry{"k2", "b"}, MapEntry{"k3", "c"}), want: replace},
		{name: "a value that no line of text holds", change: rows(MapEntry{"k1", "\x01"}, MapEntry{"k2", "b"}, MapEntry{"k3", "c"}), want: replace},
		{name: "many rows", change: rows(many...), want: replace},
		{name: "a map whose rows stayed", change: func(s *spec) { s.maps["m.map"] = slices.Clone(s.maps["m.map"]) }},
		{name: "a certificate", change: content("c.pem", "two"), want: []Operation{{Kind: OpCertReplace, Path: "c.pem"}}},
		{name: "authorities", change: content("ca.pem", "two"), want: []Operation{{Kind: OpCAReplace, Path: "ca.pem"}}},
		{name: "an entry more of a certificate that is there", change: entries(append(fixed().lists["list.txt"], CRTListEntry{Cert: "c.pem", SNIFilters: []string{"*.x", "!y.x"},
			Options: []Keyword{{Name: "alpn", Args: []string{"h2,http/1.1"}}, {Name: "allow-0rtt"}}})...),
			want: []Operation{{Kind: OpCRTListAdd, Path: "list.txt", Key: "c.pem", Value: "[alpn h2,http/1.1 allow-0rtt] *.x !y.x"}}},
		{name: "an entry with another filter, the new one first", change: entries(CRTListEntry{Cert: "c.pem"}, fixed().lists["list.txt"][1], CRTListEntry{Cert: "c.pem", SNIFilters: []string{"new.example"}}),
			want: []Operation{{Kind: OpCRTListAdd, Path: "list.txt", Key: "c.pem", Value: "new.example"}, {Kind: OpCRTListDelete, Path: "list.txt", Key: "c.pem", Value: "c.example"}}},
		{name: "another certificate in place of one", change: func(s *spec) {
			entries(CRTListEntry{Cert: "c.pem"}, CRTListEntry{Cert: "c.pem", SNIFilters: []string{"c.example"}}, CRTListEntry{Cert: "e.pem"})(s)
			delete(s.files, "d.pem")
			s.files["e.pem"] = File{Kind: FileCert, Digest: "one"}
		}, want: []Operation{{Kind: OpCertAdd, Path: "e.pem"}, {Kind: OpCRTListAdd, Path: "list.txt", Key: "e.pem"},
			{Kind: OpCRTListDelete, Path: "list.txt", Key: "d.pem", Value: "d.example"}, {Kind: OpCertDelete, Path: "d.pem"}}},
		{name: "a file that no worker loads", change: content("note.txt", "two")},
		{name: "one more of these", change: func(s *spec) { s.files["more.txt"] = File{Kind: FileGeneral} }},

		{name: "text outside backends", change: func(s *spec) { s.core = "global\n maxconn 1\n" }, reload: true},
		{name: "a backend more", change: func(s *spec) { s.backends["z"] = Backend{Shape: ShapeDynamic} }, reload: true},
		{name: "a backend less", change: func(s *spec) { delete(s.backends, "b") }, reload: true},
		{name: "a body", change: backend("b", func(b *Backend) { b.BodyDigest = "y" }), reload: true},
		{name: "a balance", change: backend("b", func(b *Backend) { b.Balance = "leastconn" }), reload: true},
		{name: "something that only the text shows", change: backend("b", func(b *Backend) { b.ShapeReason = "other" }), reload: true},
		{name: "another order of servers", change: backend("b", func(b *Backend) { slices.Reverse(b.Servers) }), reload: true},
		{name: "a weight beneath a hash", change: backend("hash", func(b *Backend) { b.Servers[0].Weight = new(int64(9)) }), reload: true},
		{name: "a server less beneath a hash", change: backend("hash", func(b *Backend) { b.Servers = b.Servers[1:] }), reload: true},
		{name: "a server more beneath a hash", change: backend("hash", func(b *Backend) {
			b.Servers = append(b.Servers, Server{Name: "s3", Address: "10.0.0.3", Port: 1})
		}), reload: true},
		{name: "a name that has to be resolved", change: backend("named", func(b *Backend) { b.Servers[0].Address = "10.0.0.1" }), reload: true},
		{name: "a keyword of a server", change: backend("checked", func(b *Backend) { b.Servers[0].Extra = nil }), reload: true},
		{name: "a keyword that may depend on the address", change: backend("checked", func(b *Backend) {
			b.Servers[0].Extra, b.Servers[0].Port = []Keyword{{Name: "resolvers", Args: []string{"r"}}}, 7
		}), reload: true},
		{name: "a list of certificates that nobody recorded", change: content("l.txt", "two"), reload: true},
		{name: "the first entry of a list", change: entries(fixed().lists["list.txt"][1:]...), reload: true},
		{name: "another order of a list", change: entries(fixed().lists["list.txt"][0], fixed().lists["list.txt"][2], fixed().lists["list.txt"][1]), reload: true},
		{name: "an entry that names another file", change: entries(append(fixed().lists["list.txt"], CRTListEntry{Cert: "c.pem", Options: []Keyword{{Name: "ca-file", Args: []string{"ca.pem"}}}})...), reload: true},
		{name: "an entry that is more than a line", change: entries(append(fixed().lists["list.txt"], CRTListEntry{Cert: "c.pem", SNIFilters: []string{"x\nquit"}})...), reload: true},
		{name: "a list less", change: func(s *spec) { delete(s.lists, "list.txt") }, reload: true},
		{name: "a file that asks for a reload", change: content("page.http", "two"), reload: true},
		{name: "a certificate that does", change: content("r.pem", "two"), reload: true},
		{name: "a certificate more", change: func(s *spec) { s.files["e.pem"] = File{Kind: FileCert} }, reload: true},
		{name: "a certificate less", change: func(s *spec) { delete(s.files, "c.pem") }, reload: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			next := fixed()
			tc.change(&next)
			from, to := fixed().plan(t), next.plan(t)
			ops, ok := Compose(from, to)
			if ok == tc.reload {
				t.Fatalf("covered: %t, operations %+v", ok, ops)
			}
			if diff := cmp.Diff(tc.want, ops, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("operations (-want +got):\n%s", diff)
			}
			again, _ := Compose(from, to)
			if diff := cmp.Diff(ops, again); diff != "" {
				t.Errorf("the same plans again:\n%s", diff)
			}
		})
	}
}

func TestComposeIsBounded(t *testing.T) {
	was, now := fixed(), fixed()
	for i := range MaxOperations + 1 {
		name := fmt.Sprint("x", i)
		was.backends[name] = Backend{Shape: ShapeDynamic, Servers: []Server{{Name: "s", Address: "10.0.0.1", Port: 1}}}
		now.backends[name] = Backend{Shape: ShapeDynamic, Servers: []Server{{Name: "s", Address: "10.0.0.2", Port: 1}}}
	}
	if ops, ok := Compose(was.plan(t), now.plan(t)); ok {
		t.Errorf("%d operations were composed", len(ops))
	}
	delete(was.backends, "x0")
	delete(now.backends, "x0")
	if ops, ok := Compose(was.plan(t), now.plan(t)); !ok || len(ops) != MaxOperations {
		t.Errorf("%d operations, covered: %t", len(ops), ok)
	}
	if _, ok := Compose(nil, now.plan(t)); ok {
		t.Error("something was composed from nothing")
	}
}

// FuzzComposedOperations: the operations bring the worker of one plan to what a
// worker loaded with the other is.
func FuzzComposedOperations(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		first := randomSpec(r)
		second := randomSpec(r)
		if r.IntN(2) == 0 { // small differences alone
			second.backends, second.files = first.backends, first.files
			for path, rows := range first.maps {
				second.maps[path] = editRows(r, rows)
			}
		}
		second.list(r, editList(r, first.lists["certs.txt"]))
		from, to := first.plan(t), second.plan(t)
		ops, ok := Compose(from, to)
		if !ok {
			t.Fatalf("not covered: %+v to %+v", from, to)
		}
		w := workerOf(from)
		for _, op := range ops {
			w.do(t, op, to)
		}
		same := cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Server{}, "Comment")}
		if diff := cmp.Diff(workerOf(to), w, same); diff != "" {
			t.Errorf("seed %d (-want +got):\n%s\n%+v", seed, diff, ops)
		}
	})
}
