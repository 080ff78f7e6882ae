package inspect

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// proxy adds a pod of the fleet.
func (e *export) proxy(name, uid, node string, ready bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: e.meta(name, uid), Spec: corev1.PodSpec{NodeName: node}}
	pod.SetGroupVersionKind(schema.FromAPIVersionAndKind("v1", KindPod))
	pod.Labels = map[string]string{"app": "proxy"}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.244.0.1"}
	if ready {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	e.others = append(e.others, pod)
	return pod
}

func (e *export) node(name string, status corev1.ConditionStatus) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.SetGroupVersionKind(schema.FromAPIVersionAndKind("v1", KindNode))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	e.others = append(e.others, node)
}

// newFleet is an export with a configured pod and one that waits.
func newFleet(t testing.TB) *export {
	e := newExport(t)
	e.others = nil
	e.node("alive", corev1.ConditionTrue)
	e.proxy("proxy-0", "pod-uid", "alive", true)
	e.proxy("proxy-1", "new-uid", "alive", false)
	return e
}

func (e *export) setIntent(change func(*fencing.Intent)) {
	intent := record.RetainedLease(e.retained).Intent.Intent
	change(&intent)
	e.retained = record.WithIntent(e.retained, intent)
}

// findings are the checks that neither passed nor were skipped.
func (r *DrillReport) findings() []string {
	found := []string{}
	for _, c := range r.Checks {
		if c.Result == Refused || c.Result == NotKnown {
			found = append(found, c.Name+" "+string(c.Result)+" "+c.Reason)
		}
	}
	return found
}

func drillFiles(t testing.TB, e *export, settings DrillSettings) *DrillReport {
	t.Helper()
	files := Files{Paths: []string{"-"}, Stdin: strings.NewReader(string(e.yaml(t))), Fleet: true}
	inv, err := files.Read()
	if err != nil {
		t.Fatal(err)
	}
	report, err := Drill(t.Context(), inv, settings)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// drills are what can be wrong with what is stored, one row a reason.
var drills = []struct {
	name string
	edit func(t *testing.T, e *export)
	want []string
	do   string
}{
	{name: "everything agrees"},
	{name: "nothing was ever recorded", want: []string{"intent Refused NoIntent"}, do: "Fix rendering",
		edit: func(_ *testing.T, e *export) { e.setIntent(func(i *fencing.Intent) { i.PlanID, i.Checksum = "", "" }) }},
	{name: "the intent does not parse", want: []string{"intent Refused IntentUnreadable", "fence Unknown NoIntent"}, do: "Fix rendering",
		edit: func(_ *testing.T, e *export) {
			for key := range e.retained.Annotations {
				e.retained.Annotations[key] = "{"
			}
		}},
	{name: "the intent outran the checkpoint", want: []string{"pointer Refused IntentOutranCheckpoint"}, do: "there is no override",
		edit: func(_ *testing.T, e *export) {
			e.setIntent(func(i *fencing.Intent) { i.PlanID, i.Checksum = "0123456789abcdef", "0123456789abcdef" })
			e.ordinary.Status.DeployedToPods = nil
			e.others = append(e.others[:1:1], e.others[2])
		}},
	{name: "nobody leads", want: []string{"fence Refused NoLeader"}, do: "only a leader",
		edit: func(_ *testing.T, e *export) { e.leader.Spec.HolderIdentity = new(string) }},
	{name: "another term begins", want: []string{"fence Unknown OtherLeader"}, do: "run the drill again",
		edit: func(_ *testing.T, e *export) {
			e.leader = record.WithEpoch(e.leader, 4, fencing.TemplateRef{Name: templateName, UID: templateUID})
		}},
	{name: "two templates share the leases", want: []string{"fence Refused ForeignTemplate"}, do: "leaseName",
		edit: func(_ *testing.T, e *export) {
			other := e.template.DeepCopy()
			other.Name, other.UID = "other", "10000000-0000-4000-8000-000000000002"
			other.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.KindTemplateConfig))
			e.others = append(e.others, other)
			e.leader = record.WithEpoch(e.leader, 3, fencing.TemplateRef{Name: "other", UID: string(other.UID)})
		}},
	{name: "no pointer", want: []string{"pointer Refused NoCheckpoint"}, do: "Fix rendering",
		edit: func(_ *testing.T, e *export) { e.ordinary.Status.RetainedConfigs = nil }},
	{name: "the pointers are another template's", want: []string{"pointer Refused PointerUntrusted"}, do: "Fix rendering",
		edit: func(_ *testing.T, e *export) { e.ordinary.OwnerReferences[0].UID = "x" }},
	{name: "the pointers are being deleted", want: []string{"pointer Refused PointerUntrusted"}, do: "Fix rendering",
		edit: func(_ *testing.T, e *export) { e.ordinary.DeletionTimestamp = &created }},
	{name: "a byte of the configuration was changed", want: []string{"checkpoint Refused CheckpointDamaged"}, do: "Restore the named object",
		edit: func(_ *testing.T, e *export) { e.newest.Spec.Content += "#" }},
	{name: "a certificate is gone", want: []string{"checkpoint Refused CheckpointDamaged"}, do: "Restore the named object",
		edit: func(_ *testing.T, e *export) { e.secrets = e.secrets[:1] }},
	{name: "the checkpoint is gone", want: []string{"checkpoint Refused CheckpointDamaged"}, do: "Restore the named object",
		edit: func(_ *testing.T, e *export) { e.newest = nil }},
	{name: "no receipt proves it", want: []string{"checkpoint Refused CheckpointUnacknowledged"}, do: "Fix rendering",
		edit: func(_ *testing.T, e *export) { e.newest.Status.DeployedToPods = nil }},
	{name: "the plan is of another format", want: []string{"checkpoint Refused CheckpointUnknown"}, do: "Fix rendering",
		edit: func(t *testing.T, e *export) { e.otherFormat(t) }},
	{name: "a pod on a dead node", want: []string{"pod proxy-0 Refused PodUnreachable"},
		do: "kubectl delete pod -n edge proxy-0 --force --grace-period=0",
		edit: func(_ *testing.T, e *export) {
			e.node("dead", corev1.ConditionUnknown)
			e.others[1].(*corev1.Pod).Spec.NodeName = "dead"
		}},
	{name: "a pod on a node that is gone", want: []string{"pod proxy-1 Refused PodUnreachable"}, do: "proxy-1 --force",
		edit: func(_ *testing.T, e *export) { e.others[2].(*corev1.Pod).Spec.NodeName = "gone" }},
	{name: "a pod on another plan", want: []string{"pod proxy-0 Refused PodOnAnotherPlan"}, do: "Only if pod proxy-0 is known to be wrong",
		edit: func(_ *testing.T, e *export) {
			e.ordinary.Status.DeployedToPods = append([]v1alpha1.PodDeploymentStatus{}, e.predecessor.Status.DeployedToPods...)
		}},
	{name: "a reload to come", want: []string{"pod proxy-0 Refused PodPending"}, do: "It passes",
		edit: func(_ *testing.T, e *export) {
			entry := e.newest.Status.DeployedToPods[0]
			entry.Mode = "scheduled"
			e.ordinary.Status.DeployedToPods = []v1alpha1.PodDeploymentStatus{entry}
		}},
	{name: "a pod that serves and never reported", want: []string{"pod proxy-0 Unknown PodUnverified"}, do: "its agent's log",
		edit: func(_ *testing.T, e *export) { e.ordinary.Status.DeployedToPods = nil }},
	{name: "a pod that failed last", want: []string{"pod proxy-0 Unknown PodUnverified"}, do: "its agent's log",
		edit: func(_ *testing.T, e *export) {
			entry := e.newest.Status.DeployedToPods[0]
			entry.LastError = "no answer"
			e.ordinary.Status.DeployedToPods = []v1alpha1.PodDeploymentStatus{entry}
		}},
	{name: "a pod that has ended does not count", edit: func(_ *testing.T, e *export) {
		pod := e.others[1].(*corev1.Pod)
		pod.Status.Phase, pod.Spec.NodeName = corev1.PodFailed, "gone"
	}},
	{name: "pods of others do not count", edit: func(_ *testing.T, e *export) {
		e.proxy("other", "other-uid", "gone", true).Labels = map[string]string{"app": "other"}
	}},
	{name: "an export without pods", want: []string{"fleet Unknown NotGiven"}, do: "list pods",
		edit: func(_ *testing.T, e *export) { e.others = nil }},
	{name: "an export without leases", want: []string{"intent Unknown NotGiven"}, do: "list leases",
		edit: func(_ *testing.T, e *export) { e.leader, e.retained = nil, nil }},
	{name: "an export without secrets", want: []string{"checkpoint Unknown NotGiven"}, do: "give it with the export",
		edit: func(_ *testing.T, e *export) { e.secrets = nil }},
	{name: "an export without the pointers", want: []string{"pointer Unknown NotGiven", "pod proxy-0 Unknown PodUnverified"},
		edit: func(_ *testing.T, e *export) { e.ordinary = nil }},
	{name: "an export without checkpoints", want: []string{"checkpoint Unknown NotGiven"},
		edit: func(_ *testing.T, e *export) { e.newest, e.predecessor = nil, nil }},
}

// otherFormat makes the newest checkpoint one of a later release.
func (e *export) otherFormat(t *testing.T) {
	t.Helper()
	later := output(t, "shop.example app\n")
	later.Plan.SchemaVersion++
	later.Plan.ID = ""
	id, err := later.Plan.ComputeID()
	if err != nil {
		t.Fatal(err)
	}
	later.Plan.ID = id
	e.newest = e.store(t, later, string(e.newest.UID))
	e.ordinary.Status.RetainedConfigs[0].Name, e.ordinary.Status.RetainedConfigs[0].Checksum = e.newest.Name, e.newest.Spec.Checksum
	e.ordinary.Status.DeployedToPods = e.newest.Status.DeployedToPods
	e.setIntent(func(i *fencing.Intent) { i.PlanID, i.Checksum = id, later.Checksum() })
}

func TestDrillOfWhatIsStored(t *testing.T) {
	for _, tc := range drills {
		t.Run(tc.name, func(t *testing.T) {
			e := newFleet(t)
			if tc.edit != nil {
				tc.edit(t, e)
			}
			report := drillFiles(t, e, DrillSettings{Template: templateName})
			want, answer := tc.want, AnswerYes
			if want == nil {
				want = []string{}
			}
			for _, finding := range want {
				if strings.Contains(finding, " Unknown ") && answer == AnswerYes {
					answer = AnswerUnknown
				}
				if strings.Contains(finding, " Refused ") {
					answer = AnswerNo
				}
			}
			if diff := cmp.Diff(want, report.findings()); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if report.Answer != answer {
				t.Errorf("answer %s, want %s", report.Answer, answer)
			}
			for _, format := range DrillFormats {
				var out strings.Builder
				if err := report.Print(&out, format); err != nil {
					t.Error(err)
				}
				if strings.Contains(out.String(), keyBytes) || strings.Contains(out.String(), configBytes) {
					t.Errorf("%s shows content", format)
				}
				if !strings.Contains(out.String(), tc.do) {
					t.Errorf("%s does not say %q:\n%s", format, tc.do, out.String())
				}
			}
		})
	}
}

func TestADrillNamesThePodsThatWait(t *testing.T) {
	if diff := cmp.Diff([]string{"proxy-1"}, drillFiles(t, newFleet(t), DrillSettings{}).Starts); diff != "" {
		t.Errorf("pods that wait (-want +got):\n%s", diff)
	}
}

func TestADrillAsksTheGate(t *testing.T) {
	tests := []struct {
		name    string
		verdict GateVerdict
		err     error
		want    []string
	}{
		{name: "it accepts", verdict: GateVerdict{Valid: true}, want: []string{}},
		{name: "it refuses and quotes a key", verdict: GateVerdict{Refused: true, Message: "bad PEM " + keyBytes}, want: []string{"gate Refused GateRefused"}},
		{name: "it is not there", verdict: GateVerdict{Message: "no such file"}, want: []string{"gate Unknown GateUnknown"}},
		{name: "it was given up", err: errors.New("interrupted"), want: []string{"gate Unknown GateUnknown"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			asked := ""
			report := drillFiles(t, newFleet(t), DrillSettings{Gate: func(_ context.Context, _ string, o *checkpoint.Output) (GateVerdict, error) {
				asked = o.Checksum()
				return tc.verdict, tc.err
			}})
			if diff := cmp.Diff(tc.want, report.findings()); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if asked != report.Checksum {
				t.Errorf("asked about %q, want the intended %q", asked, report.Checksum)
			}
			var out strings.Builder
			if err := report.Print(&out, "json"); err != nil || strings.Contains(out.String(), keyBytes) {
				t.Errorf("error %v, or the answer shows a key:\n%s", err, out.String())
			}
		})
	}
}

func TestDrillsOfClusters(t *testing.T) {
	const forbidden = http.StatusForbidden
	renewed := metav1.NewMicroTime(time.Now().Add(-time.Minute))
	seconds := int32(15)
	tests := []struct {
		name    string
		edit    func(*export)
		refused map[string]int
		want    []string
	}{
		{name: "everything agrees", want: []string{}},
		{name: "nodes cannot be listed", refused: map[string]int{"list nodes": forbidden}, want: []string{}},
		{name: "pods cannot be listed", refused: map[string]int{"list pods": forbidden}, want: []string{"fleet Unknown NotPermitted"}},
		{name: "leases cannot be listed", refused: map[string]int{"list leases": forbidden}, want: []string{"intent Unknown NotPermitted"}},
		{name: "the leader's lease ran out", edit: func(e *export) {
			e.leader.Spec.RenewTime, e.leader.Spec.LeaseDurationSeconds = &renewed, &seconds
		}, want: []string{"fence Refused NoLeader"}},
		{name: "a pod past its deletion grace does not count", edit: func(e *export) {
			pod := e.others[1].(*corev1.Pod)
			pod.DeletionTimestamp, pod.Spec.NodeName = &created, "gone"
		}, want: []string{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := newFleet(t)
			if tc.edit != nil {
				tc.edit(e)
			}
			server := &apiServer{t: t, objects: e.stored(), refused: tc.refused}
			listener := httptest.NewServer(server)
			t.Cleanup(listener.Close)
			cluster, err := NewCluster(&rest.Config{Host: listener.URL}, namespace)
			if err != nil {
				t.Fatal(err)
			}
			report, err := cluster.Drill(t.Context(), DrillSettings{Now: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, report.findings()); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADrillNeedsToKnowItsTemplate(t *testing.T) {
	e := newFleet(t)
	inv := readBytes(t, e.yaml(t))
	if _, err := Drill(t.Context(), inv, DrillSettings{Template: "other"}); !errors.Is(err, ErrWhichTemplate) {
		t.Errorf("Drill() error = %v, want %v", err, ErrWhichTemplate)
	}
	e.template = nil
	if _, err := Drill(t.Context(), readBytes(t, e.yaml(t)), DrillSettings{}); !errors.Is(err, ErrWhichTemplate) {
		t.Errorf("Drill() error = %v, want %v", err, ErrWhichTemplate)
	}
}
