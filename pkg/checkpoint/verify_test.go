package checkpoint

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestASoundCheckpointIsVerifiedAndRestored(t *testing.T) {
	tests := []struct {
		name    string
		options fixtureOptions
		notes   []Reason
	}{
		{name: "shared children, with evidence"},
		{name: "children of the checkpoint, with evidence", options: fixtureOptions{owned: true}},
		{name: "shared children, written by somebody else", options: fixtureOptions{foreign: true}},
		{name: "children of the checkpoint, written by somebody else", options: fixtureOptions{owned: true, foreign: true}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.options)
			v, o := f.verify()
			if v.State != Verified || v.Reason != ReasonVerified || len(v.Findings) != 0 {
				t.Fatalf("state %s, reason %s, findings %+v", v.State, v.Reason, v.Findings)
			}
			planJSON, planID := refPlanJSON(refConfiguration, f.files)
			if diff := cmp.Diff([]string{f.checkpoint.Checksum, planID, refEvidence(refConfiguration, planJSON, f.files)},
				[]string{v.Checksum, v.PlanID, v.Evidence}); diff != "" {
				t.Errorf("checksum, plan ID, evidence (-want +got):\n%s", diff)
			}
			if !v.Acknowledged || v.Receipt == nil || v.EvidenceStored == tc.options.foreign {
				t.Errorf("acknowledged %t, receipt %v, evidence stored %t", v.Acknowledged, v.Receipt, v.EvidenceStored)
			}
			for i, a := range v.Artifacts {
				if a.State != Verified || a.Shared == tc.options.owned || a.Checksum != refChecksum(f.files[i].content) ||
					*a.Size != int64(len(f.files[i].content)) || a.Object == "" || a.UID == "" || a.Kind != f.files[i].kind() {
					t.Errorf("artifact %d: %+v", i, a)
				}
			}
			if diff := cmp.Diff(v, f.judge()); diff != "" {
				t.Errorf("the verdict from digests differs from the one from bytes (-bytes +digests):\n%s", diff)
			}
			checkRestored(t, f, o)
		})
	}
}

func checkRestored(t *testing.T, f *fixture, o *Output) {
	t.Helper()
	if o == nil {
		t.Fatal("no output was restored")
	}
	if o.ConfigurationPath != "/etc/haproxy/haproxy.cfg" || string(o.Configuration) != f.options.configuration {
		t.Errorf("configuration %q at %s", o.Configuration, o.ConfigurationPath)
	}
	if diff := cmp.Diff(map[string]BackendText{"be": {Body: []string{"server s1 10.0.0.1:80", "option x"}}}, o.Backends); diff != "" {
		t.Errorf("backends (-want +got):\n%s", diff)
	}
	var want []Artifact
	for _, file := range f.files {
		want = append(want, Artifact{
			Descriptor: Descriptor{Family: Family(file.family), Name: file.name, Path: file.path, RuntimePath: file.runtime, ReloadOnChange: file.reload},
			Content:    []byte(file.content),
		})
	}
	if diff := cmp.Diff(want, o.Artifacts); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(f.checkpoint.Checksum, o.Checksum()); diff != "" {
		t.Errorf("content checksum (-want +got):\n%s", diff)
	}
}
