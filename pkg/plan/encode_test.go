package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func ptr[T any](v T) *T { return &v }

// The digests are published test vectors of xxHash64 with seed 0.
func TestDigest(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{name: "nothing", text: "", want: "ef46db3751d8e999"},
		{name: "one letter", text: "a", want: "d24ec4f1a98c6e5b"},
		{name: "three letters", text: "abc", want: "44bc2cf5ad770999"},
		{name: "a pangram", text: "The quick brown fox jumps over the lazy dog", want: "0b242d361fda71bc"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Digest([]byte(tc.text))); diff != "" {
				t.Errorf("Digest(%q) (-want +got):\n%s", tc.text, diff)
			}
			if diff := cmp.Diff(tc.want, DigestString(tc.text)); diff != "" {
				t.Errorf("DigestString(%q) (-want +got):\n%s", tc.text, diff)
			}
		})
	}
}

func TestLinesDigest(t *testing.T) {
	tests := []struct {
		name  string
		lines []string
		text  string
	}{
		{name: "no lines are the empty text", lines: nil, text: ""},
		{name: "an empty list is the empty text too", lines: []string{}, text: ""},
		{name: "one line has no newline", lines: []string{"server a 10.0.0.1:80"}, text: "server a 10.0.0.1:80"},
		{name: "lines are joined by newlines", lines: []string{"a", "", "b"}, text: "a\n\nb"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(Digest([]byte(tc.text)), LinesDigest(tc.lines)); diff != "" {
				t.Errorf("LinesDigest(%q) (-want +got):\n%s", tc.lines, diff)
			}
		})
	}
}

// full has every member set; fullJSON is written by hand from the wire format.
func full() *Plan {
	return &Plan{
		SchemaVersion: 1,
		Sections: []Section{
			{Kind: SectionCore, Name: "global", TextDigest: "0000000000000001", Length: 10},
			{Kind: SectionBackend, Name: "be", TextDigest: "0000000000000002", Length: 20},
		},
		Backends: map[string]Backend{
			"be": {
				Name: "be", Profile: "p", Mode: "http", GUID: "g", Balance: "roundrobin", HashType: "consistent",
				Shape: ShapeDynamic, ShapeReason: "r",
				Servers: []Server{
					{Name: "s1", Address: "10.0.0.1", Port: 80},
					{
						Name: "s2", Address: "10.0.0.2", Port: 81, Weight: ptr(int64(0)), Disabled: true, GUID: "sg",
						Comment: "c", Extra: []Keyword{{Name: "check"}, {Name: "sni", Args: []string{"str(x)"}}},
					},
				},
				DefaultServer: []Keyword{{Name: "inter", Args: []string{"2s"}}},
				BodyDigest:    "b", CommentsDigest: "c", RecordDigest: "r", TextDigest: "t",
			},
			"Z": {Name: "Z", Shape: ShapeStructural},
		},
		Profiles: map[string]Profile{"p": {Name: "p", BodyDigest: "d", HasRules: true}},
		Maps: map[string]Map{
			"maps/host.map": {Path: "maps/host.map", Ordered: true, Entries: []MapEntry{{Key: "a", Value: "b c"}}},
		},
		CRTLists: map[string]CRTList{
			"ssl/l": {Path: "ssl/l", Entries: []CRTListEntry{
				{Cert: "x.pem", Options: []Keyword{{Name: "alpn", Args: []string{"h2"}}}, SNIFilters: []string{"*.x"}},
				{Cert: "y.pem"},
			}},
		},
		Files: []File{{Path: "haproxy.cfg", Kind: FileConfig, ReloadOnChange: true, Digest: "f", Size: 30}},
	}
}

const fullJSON = `{"schemaVersion":1,"id":"","sections":[` +
	`{"kind":"core","name":"global","textDigest":"0000000000000001","length":10},` +
	`{"kind":"backend","name":"be","textDigest":"0000000000000002","length":20}],` +
	`"backends":{"Z":{"name":"Z","shape":"structural","bodyDigest":"","commentsDigest":"","recordDigest":"","textDigest":""},` +
	`"be":{"name":"be","profile":"p","mode":"http","guid":"g","balance":"roundrobin","hashType":"consistent",` +
	`"shape":"dynamic","shapeReason":"r","servers":[{"name":"s1","address":"10.0.0.1","port":80},` +
	`{"name":"s2","address":"10.0.0.2","port":81,"weight":0,"disabled":true,"guid":"sg","comment":"c",` +
	`"extra":[{"name":"check"},{"name":"sni","args":["str(x)"]}]}],` +
	`"defaultServer":[{"name":"inter","args":["2s"]}],` +
	`"bodyDigest":"b","commentsDigest":"c","recordDigest":"r","textDigest":"t"}},` +
	`"profiles":{"p":{"name":"p","bodyDigest":"d","hasRules":true}},` +
	`"maps":{"maps/host.map":{"path":"maps/host.map","ordered":true,"entries":[{"key":"a","value":"b c"}]}},` +
	`"crtLists":{"ssl/l":{"path":"ssl/l","entries":[{"cert":"x.pem","options":[{"name":"alpn","args":["h2"]}],"sniFilters":["*.x"]},{"cert":"y.pem"}]}},` +
	`"files":[{"path":"haproxy.cfg","kind":"config","reloadOnChange":true,"digest":"f","size":30}]}`

func TestMarshal(t *testing.T) {
	tests := []struct {
		name string
		plan *Plan
		want string
	}{
		{
			name: "lists that were never set are null, and crtLists is left out",
			plan: &Plan{SchemaVersion: 1},
			want: `{"schemaVersion":1,"id":"","sections":null,"backends":null,"profiles":null,"maps":null,"files":null}`,
		},
		{
			name: "empty lists are not null, and empty crtLists are left out all the same",
			plan: &Plan{
				SchemaVersion: 1, Sections: []Section{}, Backends: map[string]Backend{}, Profiles: map[string]Profile{},
				Maps: map[string]Map{}, CRTLists: map[string]CRTList{}, Files: []File{},
			},
			want: `{"schemaVersion":1,"id":"","sections":[],"backends":{},"profiles":{},"maps":{},"files":[]}`,
		},
		{name: "every member in its order", plan: full(), want: fullJSON},
		{
			name: "text is escaped as encoding/json does it",
			plan: &Plan{
				SchemaVersion: 1, ID: "x",
				Sections: []Section{{Kind: "core", Name: "<a>&\"\\\n\x01\u2028\u2029\xff\u00e9"}},
			},
			want: `{"schemaVersion":1,"id":"x","sections":[{"kind":"core","name":"\u003ca\u003e\u0026\"\\\n\u0001\u2028\u2029\ufffd` + "\u00e9" +
				`","textDigest":"","length":0}],"backends":null,"profiles":null,"maps":null,"files":null}`,
		},
		{
			name: "map keys are sorted by bytes, entries keep false and empty where they must",
			plan: &Plan{SchemaVersion: 1, Maps: map[string]Map{"b": {Path: "b"}, "B": {Path: "B", Entries: []MapEntry{}}, "\u00e4": {Path: "u"}}},
			want: `{"schemaVersion":1,"id":"","sections":null,"backends":null,"profiles":null,` +
				`"maps":{"B":{"path":"B","ordered":false},"b":{"path":"b","ordered":false},"` + "\u00e4" + `":{"path":"u","ordered":false}},"files":null}`,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.plan.Marshal()
			if err != nil {
				t.Fatalf("Marshal: %v", err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("Marshal (-want +got):\n%s", diff)
			}
		})
	}
}

func TestComputeIDHashesTheCanonicalTextWithAnEmptyID(t *testing.T) {
	p := full()
	p.ID = "whatever it was"
	id, err := p.ComputeID()
	if err != nil {
		t.Fatalf("ComputeID: %v", err)
	}
	if diff := cmp.Diff(Digest([]byte(fullJSON)), id); diff != "" {
		t.Errorf("ComputeID (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("whatever it was", p.ID); diff != "" {
		t.Errorf("ComputeID changed the plan's ID (-want +got):\n%s", diff)
	}
}

func TestMapEntries(t *testing.T) {
	tests := []struct {
		name, content string
		want          []MapEntry
	}{
		{name: "an empty file has no entries"},
		{name: "blank lines and comments are no entries", content: "\n  \n# a b\n\t# c d\n"},
		{
			name:    "order and duplicates are kept",
			content: "b 1\na 2\nb 1\n",
			want:    []MapEntry{{"b", "1"}, {"a", "2"}, {"b", "1"}},
		},
		{
			name:    "the key ends at the first space or tab, the rest is trimmed",
			content: "  host.example \t be one \t\r\nkey\tvalue with # sign\nlonely\n",
			want:    []MapEntry{{"host.example", "be one"}, {"key", "value with # sign"}, {"lonely", ""}},
		},
		{name: "a last line needs no newline", content: "a b", want: []MapEntry{{"a", "b"}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, MapEntries([]byte(tc.content))); diff != "" {
				t.Errorf("MapEntries(%q) (-want +got):\n%s", tc.content, diff)
			}
		})
	}
}
