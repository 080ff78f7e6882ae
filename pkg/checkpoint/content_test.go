package checkpoint

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFamilies(t *testing.T) {
	type row struct {
		Name, Kind, FileKind           string
		Valid, CA, Secret, NamedByFile bool
	}
	want := map[Family]row{
		0: {Name: "unknown"},
		1: {"Map", "HAProxyMapFile", "map", true, false, false, false},
		2: {"General", "HAProxyGeneralFile", "general", true, false, false, true},
		3: {"Certificate", "Secret", "cert", true, false, true, false},
		4: {"CA", "Secret", "ca", true, true, true, false},
		5: {"CRTList", "HAProxyCRTListFile", "crtlist", true, false, false, false},
		6: {"GeneralCA", "HAProxyGeneralFile", "ca", true, true, false, true},
		7: {Name: "unknown"},
	}
	for f, w := range want {
		got := row{f.String(), f.Kind(), f.FileKind(), f.Valid(), f.IsCA(), f.IsSecret(), f.NamedByFile()}
		if diff := cmp.Diff(w, got); diff != "" {
			t.Errorf("family %d (-want +got):\n%s", f, diff)
		}
	}
}

func TestSummarize(t *testing.T) {
	if diff := cmp.Diff(abcChecksum, Summarize([]byte("abc")).FileChecksum()); diff != "" {
		t.Errorf("file checksum of a sum (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(abcChecksum, FileChecksum([]byte("abc"))); diff != "" {
		t.Errorf("FileChecksum (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(EmptyChecksum, FileChecksum(nil)); diff != "" {
		t.Errorf("FileChecksum of nothing (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("44bc2cf5ad770999", Summarize([]byte("abc")).PlanDigest); diff != "" {
		t.Errorf("plan digest of a sum (-want +got):\n%s", diff)
	}
}

// The expected checksum is that of
// config503.httpGENbundle.pemGCA/m/a.mapMA/m/b.mapMB/s/c.pemCERT/s/ca.pemCA/s/l.txtLIST.
func TestContentChecksumOrdersGroupsAndIdentifiers(t *testing.T) {
	artifacts := []Artifact{
		{Descriptor{Family: GeneralCA, Name: "bundle.pem", Path: "/g/1"}, []byte("GCA")},
		{Descriptor{Family: CRTList, Name: "l.txt", Path: "/s/l.txt"}, []byte("LIST")},
		{Descriptor{Family: CA, Name: "ca.pem", Path: "/s/ca.pem"}, []byte("CA")},
		{Descriptor{Family: Map, Name: "/m/b.map", Path: "/m/b.map"}, []byte("MB")},
		{Descriptor{Family: General, Name: "503.http", Path: "/g/2"}, []byte("GEN")},
		{Descriptor{Family: Certificate, Name: "c.pem", Path: "/s/c.pem"}, []byte("CERT")},
		{Descriptor{Family: Map, Name: "/m/a.map", Path: "/m/a.map"}, []byte("MA")},
	}
	const want = "79dd69a24202195c"
	if diff := cmp.Diff(want, ContentChecksum([]byte("config"), artifacts)); diff != "" {
		t.Errorf("ContentChecksum (-want +got):\n%s", diff)
	}

	facts := &CheckpointFacts{}
	contents := map[Descriptor][]byte{}
	for _, a := range artifacts {
		facts.Descriptors = append(facts.Descriptors, a.Descriptor)
		contents[a.Descriptor] = a.Content
	}
	got, err := StreamContentChecksum(facts, []byte("config"), func(d Descriptor) ([]byte, error) { return contents[d], nil })
	if err != nil {
		t.Fatalf("StreamContentChecksum: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("StreamContentChecksum (-want +got):\n%s", diff)
	}

	gone := errors.New("gone")
	if _, err := StreamContentChecksum(facts, nil, func(Descriptor) ([]byte, error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("StreamContentChecksum error: %v", err)
	}
}

func TestReferenceAgreesOnAllFamilies(t *testing.T) {
	var artifacts []Artifact
	var descriptors []Descriptor
	var checksums []string
	var sums []DescribedSum
	for _, f := range refFiles() {
		d := Descriptor{Family: Family(f.family), Name: f.name, Path: f.path, RuntimePath: f.runtime, ReloadOnChange: f.reload}
		artifacts = append(artifacts, Artifact{d, []byte(f.content)})
		descriptors = append(descriptors, d)
		checksums = append(checksums, refChecksum(f.content))
		sums = append(sums, DescribedSum{d, Summarize([]byte(f.content))})
	}
	if diff := cmp.Diff(refContentChecksum("c", refFiles()), ContentChecksum([]byte("c"), artifacts)); diff != "" {
		t.Errorf("ContentChecksum (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(refSetID(refFiles()), SetID(descriptors, checksums)); diff != "" {
		t.Errorf("SetID (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(refEvidence("c", "p", refFiles()), Evidence(Summarize([]byte("c")), Summarize([]byte("p")), sums)); diff != "" {
		t.Errorf("Evidence (-want +got):\n%s", diff)
	}
}

// Each is the SHA-256 of a text that is written out in the test's name.
func TestSetIDOfSmallSets(t *testing.T) {
	tests := []struct {
		name        string
		descriptors []Descriptor
		checksums   []string
		text        string
	}{
		{
			name: "an empty set has five nulls",
			text: `{"MapFiles":null,"SSLCertificates":null,"SSLCaFiles":null,"GeneralFiles":null,"CRTListFiles":null}`,
		},
		{
			name:        "files are sorted, general ones by file name, the rest by path",
			descriptors: []Descriptor{{Family: General, Name: "b", Path: "/1"}, {Family: GeneralCA, Name: "a", Path: "/2"}, {Family: Map, Path: "/m"}},
			checksums:   []string{"sha256:b", "sha256:a", "sha256:m"},
			text: `{"MapFiles":[{"Path":"/m"}],"SSLCertificates":null,"SSLCaFiles":null,"GeneralFiles":[` +
				`{"Filename":"a","Path":"/2","IsCaFile":true,"ReloadOnPush":null},` +
				`{"Filename":"b","Path":"/1","IsCaFile":false,"ReloadOnPush":false}],"CRTListFiles":null}sha256:msha256:asha256:b`,
		},
		{
			name:        "the JSON is escaped as encoding/json does it",
			descriptors: []Descriptor{{Family: CRTList, Path: "/<&>"}},
			checksums:   []string{"sha256:l"},
			text: `{"MapFiles":null,"SSLCertificates":null,"SSLCaFiles":null,"GeneralFiles":null,` +
				`"CRTListFiles":[{"Path":"/\u003c\u0026\u003e"}]}sha256:l`,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff("content-sha256:"+refHex(tc.text), SetID(tc.descriptors, tc.checksums)); diff != "" {
				t.Errorf("SetID (-want +got):\n%s", diff)
			}
		})
	}
}

// Moving bytes between neighbours leaves the content checksum alone; that is
// what evidence is for.
func TestEvidenceSeesWhatTheContentChecksumDoesNot(t *testing.T) {
	one := []Artifact{{Descriptor{Family: Map, Path: "/m"}, []byte("ab")}}
	two := []Artifact{{Descriptor{Family: Map, Path: "c/m"}, []byte("ab")}}
	if ContentChecksum([]byte("xc"), one) != ContentChecksum([]byte("x"), two) {
		t.Fatal("the content checksum is framed after all")
	}
	evidence := func(configuration string, a Artifact) string {
		return Evidence(Summarize([]byte(configuration)), Sum{}, []DescribedSum{{a.Descriptor, Summarize(a.Content)}})
	}
	if evidence("xc", one[0]) == evidence("x", two[0]) {
		t.Error("the evidence is the same for different outputs")
	}
}
