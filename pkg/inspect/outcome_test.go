package inspect

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// said lists the states and reasons of everything that is not a note.
func said(report *Report) []string {
	var all []string
	add := func(f checkpoint.Finding) {
		if f.State != checkpoint.Note {
			all = append(all, string(f.State)+" "+string(f.Reason))
		}
	}
	for _, c := range report.Checkpoints {
		for _, f := range c.Verdict.Findings {
			add(f)
		}
	}
	for _, n := range report.Notices {
		add(n.Finding)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (e *export) strip(owners bool) {
	for _, o := range e.stored() {
		meta := o.(metav1.Object)
		meta.SetUID("")
		if owners {
			meta.SetOwnerReferences(nil)
		}
	}
}

const notGiven = "Unknown NotGiven"

var outcomesOfFiles = []struct {
	name string
	edit func(*export)
	want Outcome
	said []string
}{
	{name: "a sound export", edit: func(*export) {}, want: Sound},
	{name: "no leases", edit: func(e *export) { e.leader, e.retained = nil, nil }, want: Sound},
	{name: "an intent that outran the checkpoints", edit: func(e *export) {
		e.retained.Annotations[v1alpha1.AnnotationDeploymentIntent] = `{"uid":"` + templateUID + `","epoch":3,"claim":"c","planID":"p","checksum":"s"}`
	}, want: Sound},
	{name: "nothing was ever promoted", edit: func(e *export) {
		e.newest, e.predecessor, e.ordinary.Status.RetainedConfigs = nil, nil, nil
	}, want: Sound},
	{name: "a publication in progress", edit: func(e *export) {
		e.ordinary.Status.RetainedConfigs = e.ordinary.Status.RetainedConfigs[1:]
		e.newest.Status = v1alpha1.HAProxyCfgStatus{}
	}, want: Sound, said: []string{"Unknown Uncommitted"}},
	{name: "an unpromoted checkpoint on its way out", edit: func(e *export) {
		e.ordinary.Status.RetainedConfigs = e.ordinary.Status.RetainedConfigs[:1]
		e.predecessor.DeletionTimestamp = &created
	}, want: Sound, said: []string{"Damaged Terminating"}},
	{name: "a promoted checkpoint on its way out", edit: func(e *export) {
		e.predecessor.DeletionTimestamp = &created
	}, want: Damaged, said: []string{"Damaged Terminating"}},
	{name: "an unpromoted checkpoint that is damaged", edit: func(e *export) {
		e.ordinary.Status.RetainedConfigs = e.ordinary.Status.RetainedConfigs[:1]
		e.predecessor.Spec.RetainedPlan = ""
	}, want: Damaged, said: []string{"Damaged PayloadMissing"}},
	{name: "a checkpoint without labels and payload is still one", edit: func(e *export) {
		e.predecessor.Labels, e.predecessor.Spec.RetainedPlan = nil, ""
	}, want: Damaged, said: []string{"Damaged PayloadMissing"}},
	{name: "a content checksum that is wrong everywhere alike", edit: func(e *export) {
		const wrong = "0123456789abcdef"
		cfg := e.predecessor
		cfg.Name = checkpoint.CheckpointName(templateName, wrong, cfg.Spec.RetainedPlan)
		cfg.Spec.Checksum, cfg.Status.DeployedToPods[0].Checksum = wrong, wrong
		e.ordinary.Status.RetainedConfigs[1].Name, e.ordinary.Status.RetainedConfigs[1].Checksum = cfg.Name, wrong
	}, want: Damaged, said: []string{"Damaged ContentChecksumMismatch"}},
	{name: "a promoted checkpoint without receipt", edit: func(e *export) {
		e.newest.Status.DeployedToPods[0].Mode = v1alpha1.ModeScheduled
	}, want: Damaged, said: []string{"Damaged ReceiptMissing"}},
	{name: "one file is missing", edit: func(e *export) { e.crtLists = nil }, want: Damaged, said: []string{"Damaged ChildMissing"}},
	{name: "one secret is missing", edit: func(e *export) { e.secrets = e.secrets[1:] }, want: Damaged, said: []string{"Damaged ChildMissing"}},
	{name: "secrets are stripped", edit: func(e *export) { e.secrets = nil }, want: Unjudged, said: []string{notGiven}},
	{name: "the data of secrets is stripped", edit: func(e *export) {
		for _, s := range e.secrets {
			s.Data = nil
		}
	}, want: Unjudged, said: []string{notGiven}},
	{name: "files are left out", edit: func(e *export) { e.maps, e.general, e.crtLists = nil, nil, nil }, want: Unjudged, said: []string{notGiven}},
	{name: "files are left out and a secret is damaged", edit: func(e *export) {
		e.maps, e.general, e.crtLists = nil, nil, nil
		e.secrets[0].Data["certificate"] = []byte("other")
	}, want: Damaged, said: []string{"Damaged ChecksumMismatch", "Damaged PlanDigestMismatch", notGiven}},
	{name: "the template is missing", edit: func(e *export) { e.template = nil }, want: Unjudged, said: []string{notGiven}},
	{name: "the ordinary output is missing", edit: func(e *export) { e.ordinary = nil }, want: Unjudged, said: []string{notGiven}},
	{name: "one promoted checkpoint is missing", edit: func(e *export) { e.predecessor = nil }, want: Damaged, said: []string{"Damaged CheckpointMissing"}},
	{name: "all checkpoints are missing", edit: func(e *export) { e.newest, e.predecessor = nil, nil }, want: Unjudged, said: []string{notGiven}},
	{name: "only the template is there", edit: func(e *export) {
		*e = export{template: e.template}
	}, want: Unjudged, said: []string{notGiven}},
	{name: "only a checkpoint is there", edit: func(e *export) {
		*e = export{newest: e.newest}
	}, want: Unjudged, said: []string{notGiven}},
	{name: "only children are there", edit: func(e *export) {
		*e = export{maps: e.maps, secrets: e.secrets}
	}, want: Unjudged, said: []string{"Unknown NothingFound"}},
	{name: "nothing is there", edit: func(e *export) { *e = export{} }, want: Unjudged, said: []string{"Unknown NothingFound"}},
	{name: "status is stripped", edit: func(e *export) {
		for _, cfg := range []*v1alpha1.HAProxyCfg{e.ordinary, e.newest, e.predecessor} {
			cfg.Status = v1alpha1.HAProxyCfgStatus{}
		}
	}, want: Unjudged, said: []string{notGiven, "Unknown Uncommitted"}},
	{name: "UIDs are stripped", edit: func(e *export) { e.strip(false) }, want: Unjudged, said: []string{notGiven}},
	{name: "UIDs and owners are stripped", edit: func(e *export) { e.strip(true) }, want: Unjudged, said: []string{notGiven}},
	{name: "UIDs, owners and labels are stripped", edit: func(e *export) {
		e.strip(true)
		e.newest.Labels, e.predecessor.Labels = nil, nil
	}, want: Unjudged, said: []string{notGiven}},
	{name: "UIDs are stripped and a file is damaged", edit: func(e *export) {
		e.strip(true)
		e.maps[1].Spec.Checksum = "sha256:00"
	}, want: Damaged, said: []string{"Damaged ChecksumMismatch", notGiven}},
	{name: "owners alone are stripped", edit: func(e *export) { e.newest.OwnerReferences = nil }, want: Damaged, said: []string{"Damaged OwnerMismatch"}},
	{name: "the ordinary output belongs to another template", edit: func(e *export) { e.ordinary.OwnerReferences[0].UID = "other" }, want: Damaged, said: []string{"Damaged OwnerMismatch"}},
	{name: "the template was created anew", edit: func(e *export) { e.template.UID = "new" }, want: Damaged, said: []string{"Damaged OwnerMismatch"}},
	{name: "a later version of a kind of ours", edit: func(e *export) {
		e.others = append(e.others, &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "haproxy-haptic.org/v2", Kind: "HAProxyCfg"}})
	}, want: Unjudged, said: []string{"Unknown UnsupportedKind"}},
	{name: "an unknown kind of our group", edit: func(e *export) {
		e.others = append(e.others, &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "haproxy-haptic.org/v1alpha1", Kind: "HAProxyNovelty"}})
	}, want: Sound},
	{name: "secrets of others in two versions", edit: func(e *export) {
		for _, data := range []string{"a", "b"} {
			e.others = append(e.others, &corev1.Secret{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
				ObjectMeta: e.meta("somebody-elses", "z"), Data: map[string][]byte{"k": []byte(data)},
			})
		}
	}, want: Sound},
}

func TestOutcomesOfFiles(t *testing.T) {
	for _, tc := range outcomesOfFiles {
		t.Run(tc.name, func(t *testing.T) {
			e := newExport(t)
			tc.edit(e)
			report := mustVerify(t, e.yaml(t))
			if diff := cmp.Diff(tc.said, said(report)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if got := report.Outcome(); got != tc.want {
				t.Errorf("Outcome() = %d, want %d", got, tc.want)
			}
		})
	}
}

// A list of a later release is nothing that typed objects could show, so it is
// put into the written export.
func TestFilesInAListOfALaterReleaseAreUnsupportedAndNotDamaged(t *testing.T) {
	e := newExport(t)
	later := bytes.ReplaceAll(e.yaml(t), []byte("crtListFiles:"), []byte("keyedListFiles:"))
	report := mustVerify(t, later)
	if diff := cmp.Diff([]string{"Unknown UnsupportedFamily"}, said(report)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if got := report.Outcome(); got != Unjudged {
		t.Errorf("Outcome() = %d, want %d", got, Unjudged)
	}
}

func TestStrippedUIDsAreNotInvented(t *testing.T) {
	e := newExport(t)
	e.strip(true)
	e.ordinary = nil
	report := mustVerify(t, e.yaml(t))
	for _, c := range report.Checkpoints {
		if c.View.UID != "" || c.Verdict.State != checkpoint.Unknown || c.Verdict.Reason != ReasonNotGiven {
			t.Errorf("checkpoint without a UID: view UID %q, verdict %s %s", c.View.UID, c.Verdict.State, c.Verdict.Reason)
		}
	}
	for _, intent := range report.Intents {
		if intent.UID != "" {
			t.Errorf("intent without a UID has UID %q", intent.UID)
		}
	}
}

func TestIgnoredObjectsAreCounted(t *testing.T) {
	e := newExport(t)
	e.others = append(e.others, []runtime.Object{
		&corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}},
	}...)
	inv := readBytes(t, e.yaml(t))
	if got, want := inv.Ignored(), 2; got != want {
		t.Errorf("Ignored() = %d, want %d", got, want)
	}
}
