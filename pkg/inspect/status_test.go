package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/pkg/fencing"
)

func statusOfFiles(t *testing.T, e *export) (*Status, string) {
	t.Helper()
	files := Files{Paths: []string{"-"}, Stdin: strings.NewReader(string(e.yaml(t))), Fleet: true}
	inv, err := files.Read()
	if err != nil {
		t.Fatal(err)
	}
	status, err := NewStatus(t.Context(), inv, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := status.Print(&out, "table"); err != nil {
		t.Fatal(err)
	}
	return status, out.String()
}

func TestStatusShowsEverythingOfATemplate(t *testing.T) {
	e := newFleet(t)
	e.proxy("proxy-2", "other-uid", "gone", false)
	e.proxy("proxy-3", "third-uid", "alive", false).Status.PodIP = ""
	status, screen := statusOfFiles(t, e)
	if len(status.Templates) != 1 || status.Answer() == AnswerYes {
		t.Fatalf("answer %s of %d templates\n%s", status.Answer(), len(status.Templates), screen)
	}
	template := status.Templates[0]
	if len(template.Checkpoints) != 2 || template.Checkpoints[1].Status.Checksum != template.Checksum {
		t.Errorf("checkpoints are %+v", template.Checkpoints)
	}
	var pods []string
	for _, p := range template.Pods {
		pods = append(pods, p.Name+": "+p.Note)
	}
	if diff := cmp.Diff([]string{"proxy-0: ", "proxy-1: waits to be started", "proxy-2: PodUnreachable", "proxy-3: it has no address"}, pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	for _, want := range []string{"would replacement pods start now? No", "kubectl delete pod -n", template.Checkpoints[0].Name, "proxy-1", "the fleet was last told to run"} {
		if !strings.Contains(screen, want) {
			t.Errorf("%q is not on the screen:\n%s", want, screen)
		}
	}
}

func TestStatusIsTheWorstOfAllTemplates(t *testing.T) {
	sound := newFleet(t)
	if status, screen := statusOfFiles(t, sound); status.Answer() != AnswerYes || strings.Contains(screen, "WHAT TO DO") {
		t.Errorf("a sound fleet is answered by %s:\n%s", status.Answer(), screen)
	}
	lost := newFleet(t)
	lost.setIntent(func(i *fencing.Intent) { i.Checksum = strings.Repeat("0", 64) })
	if status, screen := statusOfFiles(t, lost); status.Answer() != AnswerNo || !strings.Contains(screen, "WHAT TO DO") {
		t.Errorf("an intent without a checkpoint is answered by %s:\n%s", status.Answer(), screen)
	}
	if none := (&Status{}); none.Answer() != AnswerUnknown {
		t.Errorf("nothing at all is answered by %s", none.Answer())
	}
	blind := newFleet(t)
	blind.others = nil
	blind.node("alive", corev1.ConditionTrue)
	if status, screen := statusOfFiles(t, blind); status.Answer() != AnswerUnknown {
		t.Errorf("a fleet that was not read is answered by %s:\n%s", status.Answer(), screen)
	}
}
