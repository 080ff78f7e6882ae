package acceptance

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestRetainedConfigurationFreshness(t *testing.T) {
	s := newStage(t)
	s.release("v2", 2)
	ordinary, err := s.ordinary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pointers := ordinary.Status.RetainedConfigs
	if len(pointers) != 2 {
		t.Fatalf("%d pointers, want the newest and its predecessor", len(pointers))
	}
	newer, older := pointers[0], pointers[1]
	proxies := s.pods.living(proxyName)
	untouched := s.accounts(proxies)

	s.block()
	s.restartControllers(func() { s.point(older) })
	s.scale(proxyDeployment, 3)
	added := s.newProxy(proxies)
	s.refused(added, "IntentOutranCheckpoint", newer.Checksum)

	// The right one is taken even when it does not come first.
	began := time.Now()
	s.point(older, newer)
	published := s.publication()
	note(t, "pointer restored → replacement Ready", s.awaitServing(added, "v2").Sub(began))
	s.event(eventActive, newer.Checksum, s.source.cause())
	s.checkUntouched(proxies, untouched, published)
}

func TestRetainedConfigurationTampering(t *testing.T) {
	s := newStage(t)
	checkpoint := s.awaitCheckpoint()
	proxies := s.pods.living(proxyName)
	untouched := s.accounts(proxies)

	s.block()
	s.restartControllers(func() { s.setContent(checkpoint.Name, checkpoint.Spec.Content+"# tampered\n") })
	s.scale(proxyDeployment, 3)
	added := s.newProxy(proxies)
	s.refused(added, "CheckpointDamaged", checkpoint.Spec.Checksum, checkpoint.Name)
	if diff := cmp.Diff(untouched, s.accounts(proxies)); diff != "" {
		t.Errorf("configured pods were touched (-before +after):\n%s", diff)
	}

	began := time.Now()
	s.setContent(checkpoint.Name, checkpoint.Spec.Content)
	note(t, "bytes restored → replacement Ready", s.awaitServing(added, firstRelease).Sub(began))
}

// refused wants a leader to have told why it starts no pod, to have looked
// several times, and the pod to be as it was.
func (s *stage) refused(pod *corev1.Pod, reason string, says ...string) {
	s.t.Helper()
	leader := s.awaitLeader(nil)
	text := s.event(eventNoUse, append(says, reason, s.source.cause())...)
	s.t.Logf("event: %s", text)
	s.await("the leader refused more than once", func(ctx context.Context) error {
		metrics, err := s.controller(ctx, leader, "/metrics")
		if err != nil {
			return err
		}
		found := regexp.MustCompile(`refusals_total\{reason="` + reason + `"\} (\d+)`).FindStringSubmatch(metrics)
		if found == nil {
			return fmt.Errorf("no refusal for %s", reason)
		}
		if n, err := strconv.Atoi(found[1]); err != nil || n < 2 {
			return fmt.Errorf("%s refusals, want two", found[1])
		}
		return s.wantSample(ctx, leader, gauge+" 0")
	})
	s.wantUntouchedBootstrap(pod)
}
