package v1alpha1

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "sigs.k8s.io/json"
)

func TestReferencesNoteListsOfALaterRelease(t *testing.T) {
	ref := []FileReference{{Kind: "HAProxyMapFile", Name: "m", Namespace: "ns"}}
	many, names := "{", []string{}
	for i := 10; i < 40; i++ {
		many += `"l` + strconv.Itoa(i) + `":[1],`
		if len(names) < maxUnsupportedLists {
			names = append(names, "l"+strconv.Itoa(i))
		}
	}
	tests := []struct {
		name, json string
		want       AuxiliaryFileReferences
	}{
		{
			name: "only known members", json: `{"setID":"s","mapFiles":[{"kind":"HAProxyMapFile","name":"m","namespace":"ns"}],"crtListFiles":null}`,
			want: AuxiliaryFileReferences{SetID: "s", MapFiles: ref},
		},
		{
			name: "filled lists of a later release are sorted", json: `{"zetaFiles":[{"name":"x"}],"setID":"s","alphaFiles":[ 1 ]}`,
			want: AuxiliaryFileReferences{SetID: "s", Unsupported: []string{"alphaFiles", "zetaFiles"}},
		},
		{
			name: "empty lists and members that are no lists are ignored", json: `{"a":[],"b":[ ],"c":null,"d":{"x":[1]},"e":"[1]","f":7}`,
		},
		{
			name: "names of another case are other members", json: `{"MapFiles":[{"kind":"K","name":"n"}]}`,
			want: AuxiliaryFileReferences{Unsupported: []string{"MapFiles"}},
		},
		{
			name: "the number of remembered lists is bounded", json: strings.TrimSuffix(many, ",") + "}",
			want: AuxiliaryFileReferences{Unsupported: names},
		},
		{
			name: "a long name is cut", json: `{"` + strings.Repeat("n", 300) + `":[1]}`,
			want: AuxiliaryFileReferences{Unsupported: []string{strings.Repeat("n", maxListName)}},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			status := HAProxyCfgStatus{}
			raw := []byte(`{"auxiliaryFiles":` + tc.json + `}`)
			if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &status); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tc.want, status.AuxiliaryFiles); diff != "" {
				t.Errorf("references (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzReferences reads any JSON as references: what is read survives being
// written and read again, but for what is unsupported.
func FuzzReferences(f *testing.F) {
	f.Add([]byte(`{"setID":"s","mapFiles":[{"kind":"HAProxyMapFile","name":"m","namespace":"ns"}],"crtListFiles":null}`))
	f.Add([]byte(`{"laterFiles":[{"name":"x"}],"d":{"x":[1]},"e":[ ]}`))
	f.Add([]byte(`{"setID":"a","setID":"b"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var read, again AuxiliaryFileReferences
		if err := json.Unmarshal(raw, &read); err != nil {
			return
		}
		if len(read.Unsupported) > maxUnsupportedLists {
			t.Fatalf("%d unsupported lists are remembered", len(read.Unsupported))
		}
		written, err := json.Marshal(&read)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatalf("own encoding does not parse: %v", err)
		}
		if rewritten, err := json.Marshal(&again); err != nil || string(rewritten) != string(written) {
			t.Fatalf("encoding is not stable: %s then %s, %v", written, rewritten, err)
		}
	})
}

func TestReferencesRefuseWhatTheyCannotRead(t *testing.T) {
	for _, raw := range []string{`[]`, `"x"`, `{"setID":1}`, `{"mapFiles":{}}`, `{"setID":"a","setID":"b"}`, `{"mapFiles":[{"name":"a","name":"b"}]}`} {
		if err := json.Unmarshal([]byte(raw), new(AuxiliaryFileReferences)); err == nil {
			t.Errorf("%s was read", raw)
		}
	}
}

func TestReferencesAreWrittenWithoutWhatIsUnsupported(t *testing.T) {
	refs := AuxiliaryFileReferences{
		SetID: "s", MapFiles: []FileReference{{Kind: "HAProxyMapFile", Name: "m", Namespace: "ns"}}, Unsupported: []string{"later"},
	}
	got, err := json.Marshal(&HAProxyCfgStatus{AuxiliaryFiles: &refs})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"auxiliaryFiles":{"setID":"s","mapFiles":[{"kind":"HAProxyMapFile","name":"m","namespace":"ns"}]}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("written references (-want +got):\n%s", diff)
	}
	copied := refs.DeepCopy()
	copied.Unsupported[0] = "changed"
	if refs.Unsupported[0] != "later" {
		t.Error("a deep copy shares its list of what is unsupported")
	}
}
