package election

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/fencing"
)

func TestSettingsFor(t *testing.T) {
	template := &v1alpha1.HAProxyTemplateConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "t-uid"}}
	want := settings("pod-1_a")
	if diff := cmp.Diff(want, SettingsFor(template, "pod-1_a")); diff != "" {
		t.Errorf("SettingsFor() without settings (-want +got):\n%s", diff)
	}
	off := false
	template.Spec.Controller.LeaderElection = v1alpha1.LeaderElectionSettings{
		Enabled: &off, LeaseName: "mine",
		LeaseDuration: &metav1.Duration{Duration: time.Minute},
		RenewDeadline: &metav1.Duration{Duration: 15 * time.Second},
		RetryPeriod:   &metav1.Duration{Duration: 5 * time.Second},
	}
	want = Settings{
		Namespace: "ns", Template: fencing.TemplateRef{Name: "web", UID: "t-uid"}, LeaseName: "mine", Identity: "pod-1_a",
		LeaseDuration: time.Minute, RenewDeadline: 15 * time.Second, RetryPeriod: 5 * time.Second, Standalone: true,
	}
	if diff := cmp.Diff(want, SettingsFor(template, "pod-1_a")); diff != "" {
		t.Errorf("SettingsFor() with all settings (-want +got):\n%s", diff)
	}
}

func TestNewRefusesSettingsThatCannotLead(t *testing.T) {
	tests := map[string]func(*Settings){
		"no template":                          func(s *Settings) { s.Template.UID = "" },
		"no identity":                          func(s *Settings) { s.Identity = "" },
		"both leases are one":                  func(s *Settings) { s.LeaseName = "web-retained-state" },
		"the deadline is as long as the lease": func(s *Settings) { s.RenewDeadline = s.LeaseDuration },
		"one try fits into the deadline":       func(s *Settings) { s.RetryPeriod = s.RenewDeadline },
		"no retry period":                      func(s *Settings) { s.RetryPeriod = 0 },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			s := settings("pod-1_a")
			spoil(&s)
			if _, err := New(s, nil, nil, &leader{}, nil); err == nil {
				t.Error("New() accepted them")
			}
		})
	}
}

func TestTwoStartsOfOnePodHaveTwoIdentities(t *testing.T) {
	if a, b := NewIdentity("pod-1"), NewIdentity("pod-1"); a == b {
		t.Errorf("both are %q", a)
	}
}

// TestP10ePodsAreGivenTheTimeOfADrain: a pod that is killed in the middle of its drain
// leaves the next leader without the newest checkpoint.
func TestP10ePodsAreGivenTheTimeOfADrain(t *testing.T) {
	// Beside the drain there is the release, and what the kubelet takes to tell.
	const rest = 10 * time.Second
	raw, err := os.ReadFile("../../../manifests/base/controller/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`terminationGracePeriodSeconds: (\d+)`).FindSubmatch(raw)
	if found == nil {
		t.Fatal("the manifest says nothing of the time that a pod is given")
	}
	given, err := time.ParseDuration(string(found[1]) + "s")
	if err != nil {
		t.Fatal(err)
	}
	if given < DrainLimit+rest {
		t.Errorf("a pod is given %s, and a drain may take %s with %s for the rest", given, DrainLimit, rest)
	}
}
