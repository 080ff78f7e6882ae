package checkpoint

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fault is one change to a sound checkpoint and all that it must lead to.
type fault struct {
	name    string
	options fixtureOptions
	change  func(t *testing.T, f *fixture)
	// state is the verdict, reasons are those of all findings in order.
	state   State
	reasons []Reason
	// row is the runtime path of the only artifact whose verdict changes, of its
	// object if there is one; or several of them, or every.
	row string
	// digestsDiffer is set where bytes are bounded together, which facts are not.
	digestsDiffer bool
}

// A single fault has its own reason on the right object, and nothing else changes.
func TestSingleFaults(t *testing.T) {
	var faults []fault
	faults = append(faults, checkpointFaults()...)
	faults = append(faults, payloadFaults()...)
	faults = append(faults, referenceFaults()...)
	faults = append(faults, childFaults()...)
	if len(faults) < 60 {
		t.Errorf("the table has %d faults, at least 60 are promised", len(faults))
	}
	for _, tc := range faults {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.options)
			tc.change(t, f)
			v, o := f.verify()
			tc.check(t, f, v)
			if (o != nil) != (tc.state != Damaged && v.Evidence != "") {
				t.Errorf("state %s, output restored: %t", v.State, o != nil)
			}
			if !tc.digestsDiffer {
				if diff := cmp.Diff(v, f.judge()); diff != "" {
					t.Errorf("the verdict from digests differs from the one from bytes (-bytes +digests):\n%s", diff)
				}
			}
		})
	}
}

func (tc *fault) check(t *testing.T, f *fixture, v Verdict) {
	t.Helper()
	var reasons []Reason
	var messages []string
	for _, finding := range v.Findings {
		reasons = append(reasons, finding.Reason)
		messages = append(messages, finding.Message)
		if !strings.Contains(finding.Message, "/") || strings.Contains(finding.Message, "not really") || len(finding.Message) > 1200 {
			t.Errorf("the message names no object, shows content or is too long: %s", finding.Message)
		}
	}
	if diff := cmp.Diff(tc.reasons, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s\n%s", diff, strings.Join(messages, "\n"))
	}
	if v.State != tc.state {
		t.Errorf("state %s, want %s", v.State, tc.state)
	}
	for _, a := range v.Artifacts {
		row := strings.TrimPrefix(a.UID, "uid-")
		if row == "" {
			row = a.RuntimePath
		}
		if changed := a.State != Verified; changed != (tc.row == "every" || slices.Contains(strings.Fields(tc.row), row)) {
			t.Errorf("artifact %s is %s, %s: %s", a.RuntimePath, a.State, a.Reason, a.Message)
		}
	}
}

const (
	certificateRow = "ssl/a_example.pem"
	mapRow         = "maps/host.map"
	generalRow     = "general/503.http"
)

func checkpointFaults() []fault {
	return []fault{
		{
			name: "a byte of the configuration changed",
			change: func(_ *testing.T, f *fixture) {
				f.checkpoint.Content = strings.Replace(f.checkpoint.Content, "http", "HTTP", 1)
			},
			state: Damaged, reasons: []Reason{ReasonPlanDigestMismatch, ReasonSectionMismatch},
		},
		{
			name:   "the configuration grew",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Content += "\n" },
			state:  Damaged, reasons: []Reason{ReasonPlanDigestMismatch, ReasonSectionMismatch},
		},
		{
			name:   "the configuration shrank",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Content = f.checkpoint.Content[:20] },
			state:  Damaged, reasons: []Reason{ReasonPlanDigestMismatch, ReasonSectionMismatch},
		},
		{
			name:   "the configuration is gone",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Content = "" },
			state:  Damaged, reasons: []Reason{ReasonConfigurationUnreadable},
		},
		{
			name:   "a plain configuration is marked compressed",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Compressed = true },
			state:  Damaged, reasons: []Reason{ReasonConfigurationUnreadable},
		},
		{
			name:   "the path of the configuration is gone",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Path = "" },
			state:  Damaged, reasons: []Reason{ReasonConfigurationPathMissing},
		},
		{
			name:   "the content checksum changed",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Checksum = "0123456789abcdef" },
			state:  Damaged, reasons: []Reason{ReasonContentChecksumMismatch, ReasonNameMismatch, ReasonPointerMismatch, ReasonReceiptMissing},
		},
		{
			name: "the content checksum is a file checksum, as its API comment says",
			change: func(_ *testing.T, f *fixture) {
				f.checkpoint.Checksum = refChecksum(refConfiguration)
				f.pointer.Checksum = f.checkpoint.Checksum
				f.rename()
			},
			state: Damaged, reasons: []Reason{ReasonContentChecksumMismatch, ReasonReceiptMissing},
		},
		{
			name:   "the object has another name",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Name += "0"; f.pointer.Name += "0" },
			state:  Damaged, reasons: []Reason{ReasonNameMismatch},
		},
		{
			name: "the payload was written anew under the old name",
			change: func(t *testing.T, f *fixture) {
				f.checkpoint.RetainedPlan = refPack(" " + refUnpack(t, f.checkpoint.RetainedPlan))
			},
			state: Damaged, reasons: []Reason{ReasonNameMismatch},
		},
		{
			name:   "the pointer has another UID",
			change: func(_ *testing.T, f *fixture) { f.pointer.UID = "other" },
			state:  Damaged, reasons: []Reason{ReasonPointerMismatch},
		},
		{
			name:   "the pointer has no UID, and neither has the object",
			change: func(_ *testing.T, f *fixture) { f.pointer.UID, f.checkpoint.UID = "", "" },
			state:  Damaged, reasons: []Reason{ReasonPointerMismatch},
		},
		{
			name:   "the pointer has another checksum",
			change: func(_ *testing.T, f *fixture) { f.pointer.Checksum = "0123456789abcdef" },
			state:  Damaged, reasons: []Reason{ReasonPointerMismatch},
		},
		{
			name:   "the pointer has another name",
			change: func(_ *testing.T, f *fixture) { f.pointer.Name = "other" },
			state:  Damaged, reasons: []Reason{ReasonPointerMismatch},
		},
		{
			name:   "the owner has another kind",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Owners[0].Kind = "ConfigMap" },
			state:  Damaged, reasons: []Reason{ReasonOwnerMismatch},
		},
		{
			name:   "the owner has another group",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Owners[0].APIVersion = "example.org/v1alpha1" },
			state:  Damaged, reasons: []Reason{ReasonOwnerMismatch},
		},
		{
			name:   "the owner has another name",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Owners[0].Name = "other" },
			state:  Damaged, reasons: []Reason{ReasonOwnerMismatch},
		},
		{
			name:   "the owner is an earlier template of the same name",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Owners[0].UID = "earlier" },
			state:  Damaged, reasons: []Reason{ReasonOwnerMismatch},
		},
		{
			name: "the template has no UID, and neither has the owner",
			change: func(_ *testing.T, f *fixture) {
				f.checkpoint.Owners[0].UID, f.checkpoint.RetainedFor, f.template.UID = "", "", ""
			},
			state: Damaged, row: "every",
			reasons: append(repeat(ReasonOwnerMismatch, 7), ReasonOwnerMismatch),
		},
		{
			name:   "the owner is no controller",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Owners[0].Controller = false },
			state:  Damaged, reasons: []Reason{ReasonOwnerMismatch},
		},
		{
			name:   "the template lives in another namespace",
			change: func(_ *testing.T, f *fixture) { f.template.Namespace = "elsewhere" },
			state:  Damaged, row: "every",
			reasons: append(repeat(ReasonOwnerMismatch, 7), ReasonOwnerMismatch),
		},
		{
			name:   "the object is being deleted",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Terminating = true },
			state:  Damaged, reasons: []Reason{ReasonTerminating},
		},
		{
			name:   "the template label changed, which recovery does not look at",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.TemplateLabel = "other" },
			state:  Verified, reasons: []Reason{ReasonLabelMismatch},
		},
		{
			name:   "the retained-for label is gone",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.RetainedFor = "" },
			state:  Verified, reasons: []Reason{ReasonLabelMismatch},
		},
		{
			name:   "there is no receipt",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Receipts = nil },
			state:  Verified, reasons: []Reason{ReasonReceiptMissing},
		},
		{
			name:   "the receipt is of a scheduled reload",
			change: func(_ *testing.T, f *fixture) { f.checkpoint.Receipts[0].Mode = "scheduled" },
			state:  Verified, reasons: []Reason{ReasonReceiptMissing},
		},
		{
			name: "two entries and no receipt among them",
			change: func(_ *testing.T, f *fixture) {
				f.checkpoint.Receipts = []PodEntry{{PodName: "a"}, {PodName: "b"}}
			},
			state: Verified, reasons: []Reason{ReasonReceiptMissing},
		},
	}
}

func repeat(reason Reason, n int) []Reason {
	reasons := make([]Reason, n)
	for i := range reasons {
		reasons[i] = reason
	}
	return reasons
}
