package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// identified puts the right ID into a canonical text with an empty one.
func identified(text string) string {
	return strings.Replace(text, `"id":""`, `"id":"`+Digest([]byte(text))+`"`, 1)
}

const minimal = `{"schemaVersion":1,"id":"","sections":null,"backends":null,"profiles":null,"maps":null,"files":null}`

func TestDecodeReadsBackWhatMarshalWrites(t *testing.T) {
	for _, text := range []string{minimal, fullJSON} {
		raw := identified(text)
		d, err := Decode([]byte(raw))
		if err != nil {
			t.Fatalf("Decode(%s): %v", raw, err)
		}
		if d.Plan.ID != d.ComputedID || d.UnknownMembers != nil || d.NonCanonical != nil {
			t.Errorf("Decode(%s) has ID %s, computed %s, unknown %v, non-canonical %v",
				raw, d.Plan.ID, d.ComputedID, d.UnknownMembers, d.NonCanonical)
		}
		again, err := d.Plan.Marshal()
		if err != nil {
			t.Fatalf("Marshal: %v", err)
		}
		if diff := cmp.Diff(raw, string(again)); diff != "" {
			t.Errorf("the plan read back encodes differently (-want +got):\n%s", diff)
		}
	}
}

func TestDecodeForeignPlans(t *testing.T) {
	tests := []struct {
		name, raw             string
		sound                 bool
		unknown, nonCanonical []string
	}{
		{
			name:    "members of a later release are covered by its ID",
			raw:     identified(`{"schemaVersion":1,"id":"","sections":[{"kind":"core","name":"g","textDigest":"","length":0,"tags":{"a":[1,null]}}],"backends":null,"profiles":null,"maps":null,"files":null,"later":{"x":"y"}}`),
			sound:   true,
			unknown: []string{"sections.*.tags", "later"},
		},
		{
			name:    "an ID computed without the unknown members proves the plan too, as upstream verifies",
			raw:     strings.Replace(identified(minimal), `"files"`, `"later":true,"files"`, 1),
			sound:   true,
			unknown: []string{"later"},
		},
		{
			name:    "a changed member of a later release is a mismatch",
			raw:     strings.Replace(identified(`{"schemaVersion":1,"id":"","sections":[],"backends":null,"profiles":null,"maps":null,"files":[{"path":"a","kind":"b","reloadOnChange":false,"digest":"d","size":1,"keyed":"old"}]}`), "old", "new", 1),
			unknown: []string{"files.*.keyed"},
		},
		{
			name:  "white space changes nothing",
			raw:   strings.NewReplacer(",", " ,\n", ":", "\t: ").Replace(identified(minimal)),
			sound: true,
		},
		{
			name:    "white space around unknown members changes nothing",
			raw:     strings.ReplaceAll(identified(strings.Replace(minimal, "}", `,"z":1}`, 1)), ",", " , "),
			sound:   true,
			unknown: []string{"z"},
		},
		{
			name:  "another order of members is read like ours",
			raw:   `{"id":"` + Digest([]byte(minimal)) + `","files":null,"maps":null,"schemaVersion":1,"profiles":null,"backends":null,"sections":null}`,
			sound: true,
		},
		{
			name:         "a repeated member counts as its last value and is told",
			raw:          strings.Replace(identified(minimal), `"maps"`, `"files":[],"maps"`, 1),
			sound:        true,
			nonCanonical: []string{"files"},
		},
		{
			name:         "a member in another letter case is read and told",
			raw:          strings.Replace(identified(minimal), `"maps"`, `"Maps"`, 1),
			sound:        true,
			nonCanonical: []string{"Maps"},
		},
		{
			name:         "a name that occurs twice in a map is told",
			raw:          identified(`{"schemaVersion":1,"id":"","sections":null,"backends":null,"profiles":{"p":{"name":"p","bodyDigest":""},"p":{"name":"q","bodyDigest":""}},"maps":null,"files":null}`),
			sound:        true,
			nonCanonical: []string{"profiles.p"},
		},
		{name: "a wrong ID is a mismatch and no error", raw: strings.Replace(minimal, `"id":""`, `"id":"0123456789abcdef"`, 1)},
		{name: "an empty ID is a mismatch", raw: minimal},
		{name: "an absent ID is a mismatch", raw: strings.Replace(minimal, `"id":"",`, "", 1)},
		{name: "null and an empty list differ", raw: strings.Replace(identified(minimal), `"files":null`, `"files":[]`, 1)},
		{
			name:  "an ID-like text elsewhere is not taken for the ID",
			raw:   identified(`{"schemaVersion":1,"id":"","sections":[{"kind":"\"id\":\"\"","name":"id","textDigest":"","length":0}],"backends":null,"profiles":null,"maps":null,"files":null}`),
			sound: true,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			d, err := Decode([]byte(tc.raw))
			if err != nil {
				t.Fatalf("Decode(%s): %v", tc.raw, err)
			}
			if sound := d.Plan.ID == d.ComputedID; sound != tc.sound {
				t.Errorf("ID %q, computed %q; want sound: %t", d.Plan.ID, d.ComputedID, tc.sound)
			}
			if diff := cmp.Diff(tc.unknown, d.UnknownMembers); diff != "" {
				t.Errorf("unknown members (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.nonCanonical, d.NonCanonical); diff != "" {
				t.Errorf("non-canonical members (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	sections := func(n int) string {
		return strings.Replace(minimal, `"sections":null`, `"sections":[`+strings.Repeat(`{},`, n-1)+`{}]`, 1)
	}
	files := func(n int) string {
		return strings.Replace(minimal, `"files":null`, `"files":[`+strings.Repeat(`{},`, n-1)+`{}]`, 1)
	}
	tests := []struct {
		name, raw string
		want      error
	}{
		{name: "nothing", raw: "", want: &SyntaxError{}},
		{name: "another kind of value", raw: `[]`, want: &SyntaxError{}},
		{name: "a text that ends early", raw: minimal[:len(minimal)-1], want: &SyntaxError{}},
		{name: "a second value", raw: minimal + "{}", want: &SyntaxError{}},
		{name: "a NUL at the end", raw: minimal + "\x00", want: &SyntaxError{}},
		{name: "a comma too many", raw: strings.Replace(minimal, "null}", "null,}", 1), want: &SyntaxError{}},
		{name: "a string where a list belongs", raw: strings.Replace(minimal, "null", `"x"`, 1), want: &SyntaxError{}},
		{name: "a fraction as length", raw: strings.Replace(minimal, "null", `[{"length":1.5}]`, 1), want: &SyntaxError{}},
		{name: "a number with a leading zero", raw: strings.Replace(minimal, "null", `[{"length":01}]`, 1), want: &SyntaxError{}},
		{name: "a number beyond 64 bits", raw: strings.Replace(minimal, "null", `[{"length":9223372036854775808}]`, 1), want: &SyntaxError{}},
		{name: "a control character in a string", raw: strings.Replace(minimal, `"id":""`, "\"id\":\"\x01\"", 1), want: &SyntaxError{}},
		{name: "an unknown escape", raw: strings.Replace(minimal, `"id":""`, `"id":"\q"`, 1), want: &SyntaxError{}},
		{name: "an incomplete escape", raw: strings.Replace(minimal, `"id":""`, `"id":"\u12"`, 1), want: &SyntaxError{}},
		{name: "an older format", raw: strings.Replace(minimal, `:1,`, `:0,`, 1), want: &SchemaError{Version: 0}},
		{name: "a plan without a version", raw: `{"id":""}`, want: &SchemaError{Version: 0}},
		{name: "a later format, whatever its members look like", raw: `{"files":"somewhere","schemaVersion":2}`, want: &SchemaError{Version: 2}},
		{name: "one section too many", raw: sections(MaxSections + 1), want: &BoundError{What: BoundSections, Limit: MaxSections}},
		{name: "one file too many", raw: files(MaxFiles + 1), want: &BoundError{What: BoundFiles, Limit: MaxFiles}},
		{
			name: "short text that stands for large structures",
			raw:  strings.Replace(minimal, `"backends":null`, `"backends":{"a":{"servers":[`+strings.Repeat(`{},`, 1<<20)+`{}]}}`, 1),
			want: &BoundError{What: "bytes of decoded values", Limit: MaxMemory},
		},
		{
			name: "nesting without end",
			raw:  strings.Replace(minimal, `}`, `,"x":`+strings.Repeat("[", 1<<20), 1),
			want: &BoundError{What: "levels of nesting", Limit: maxDepth},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Decode([]byte(tc.raw))
			var syntax *SyntaxError
			if errors.As(err, &syntax) {
				err = &SyntaxError{} // the position is not part of the promise
			}
			if diff := cmp.Diff(tc.want, err); diff != "" {
				t.Errorf("Decode error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeAcceptsThePlanAtTheBounds(t *testing.T) {
	raw := strings.Replace(minimal, `"sections":null`, `"sections":[`+strings.Repeat(`{},`, MaxSections-1)+`{}]`, 1)
	raw = strings.Replace(raw, `"files":null`, `"files":[`+strings.Repeat(`{},`, MaxFiles-1)+`{}]`, 1)
	d, err := Decode([]byte(raw))
	if err != nil {
		t.Fatalf("Decode: %v", err)
	}
	if diff := cmp.Diff([]int{MaxSections, MaxFiles}, []int{len(d.Plan.Sections), len(d.Plan.Files)}); diff != "" {
		t.Errorf("sections and files (-want +got):\n%s", diff)
	}
}

// FuzzDecodePlan holds the reader against encoding/json, which the format is
// defined by: both accept the same texts and read the same plans.
func FuzzDecodePlan(f *testing.F) {
	for _, seed := range []string{minimal, identified(minimal), fullJSON, identified(fullJSON), "", "{}", "[1e400]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := Decode(raw)
		var theirs Plan
		theirErr := json.Unmarshal(raw, &theirs)
		var bound *BoundError
		var schema *SchemaError
		switch {
		case errors.As(err, &bound):
			return
		case errors.As(err, &schema):
			return
		case (err == nil) != (theirErr == nil):
			t.Fatalf("Decode: %v; encoding/json: %v", err, theirErr)
		case err != nil || len(d.NonCanonical) > 0:
			// Repeated members are merged there; we only say that they are repeated.
			return
		}
		if diff := cmp.Diff(&theirs, d.Plan); diff != "" {
			t.Fatalf("the plan (-encoding/json +got):\n%s", diff)
		}
		again, err := d.Plan.Marshal()
		if err != nil {
			t.Fatalf("Marshal: %v", err)
		}
		if _, err := Decode(again); err != nil {
			t.Fatalf("a plan that was read does not read again: %v", err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	p := &Plan{SchemaVersion: 1, Backends: map[string]Backend{}, Profiles: map[string]Profile{}, Maps: map[string]Map{}}
	for i := range 3000 {
		name := fmt.Sprintf("be-%04d", i)
		p.Sections = append(p.Sections, Section{Kind: SectionBackend, Name: name, TextDigest: "0123456789abcdef", Length: 200})
		p.Backends[name] = Backend{
			Name: name, Profile: "http", Mode: "http", Shape: ShapeDynamic,
			Servers: []Server{
				{Name: "s1", Address: "10.0.0.1", Port: 8080, Extra: []Keyword{{Name: "check"}}},
				{Name: "s2", Address: "10.0.0.2", Port: 8080, Extra: []Keyword{{Name: "check"}}},
			},
			BodyDigest: "0123456789abcdef", CommentsDigest: "0123456789abcdef", RecordDigest: "0123456789abcdef", TextDigest: "0123456789abcdef",
		}
	}
	id, err := p.ComputeID()
	if err != nil {
		b.Fatal(err)
	}
	p.ID = id
	raw, err := p.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		b.ReportAllocs()
		for b.Loop() {
			if d, err := Decode(raw); err != nil || d.ComputedID != id {
				b.Fatalf("Decode: %v", err)
			}
		}
	})
	b.Run("encoding/json without the ID check", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		b.ReportAllocs()
		for b.Loop() {
			var got Plan
			if err := json.Unmarshal(raw, &got); err != nil {
				b.Fatalf("Unmarshal: %v", err)
			}
		}
	})
}
