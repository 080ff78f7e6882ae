package acceptance

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// slowPublishing makes a publish interval that the test does not outlive, so that
// only the drain stores what it holds.
const slowPublishing = `[{"op": "replace", "path": "/spec/dataplane/configPublishInterval", "value": "5m"}]`

func TestRetainedConfigurationAfterRecentDeployment(t *testing.T) {
	s := newStage(t, slowPublishing)
	first := s.awaitCheckpoint()
	proxies := s.pods.living(proxyName)
	leader := s.awaitLeader(nil)
	// The leader holds the document and can deploy. Its successor never had it and
	// can deploy nothing, so what is stored from now on was stored by the drain.
	s.block()
	s.restartStandby()

	s.setInput("release", "v2")
	s.awaitRelease("v2", 2)
	intent, err := s.intent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if intent.Checksum == first.Spec.Checksum {
		t.Fatal("the intent still names the first release")
	}
	if _, err := s.intended(t.Context()); err == nil {
		t.Fatal("the receipt was stored already, so the throttle held nothing")
	}
	deleted := time.Now()
	s.deletePod(leader, nil)
	s.await("the drain has stored the receipt", func(ctx context.Context) error {
		_, err := s.intended(ctx)
		return err
	})
	note(t, "leader deleted → its last receipt stored", time.Since(deleted))
	s.scale(proxyDeployment, 3)
	added := s.newProxy(proxies)
	next := s.awaitLeader(leader)
	note(t, "leader deleted → next leader seen", time.Since(deleted))
	ready := s.awaitServing(added, "v2")
	note(t, "leader deleted → replacement Ready", ready.Sub(deleted))
	s.noteSteps(next, added)
	s.event(eventActive, intent.Checksum, s.source.cause())
	if err := s.wantActive(t.Context(), intent.Checksum); err != nil {
		t.Error(err)
	}
}

func TestLeaderChangeReloadsNothing(t *testing.T) {
	s := newStage(t)
	proxies := s.pods.living(proxyName)
	for _, tc := range []struct {
		how   string
		grace *int64
	}{{"stopped", nil}, {"killed", new(int64)}} {
		published, before := s.publication(), withoutNoop(s.accounts(proxies))
		leader := s.awaitLeader(nil)
		began := time.Now()
		s.deletePod(leader, tc.grace)
		next := s.awaitLeader(leader)
		s.awaitServedBy(next)
		note(t, "leader "+tc.how+" → every pod served by the next", time.Since(began))
		if diff := cmp.Diff(before, withoutNoop(s.accounts(proxies))); diff != "" {
			t.Errorf("leader %s: pods were touched (-before +after):\n%s", tc.how, diff)
		}
		if diff := cmp.Diff(published, s.publication()); diff != "" {
			t.Errorf("leader %s: something was published (-before +after):\n%s", tc.how, diff)
		}
		if err := errors.Join(s.wantSample(t.Context(), next, gauge+" 0"), s.wantActive(t.Context(), "")); err != nil {
			t.Errorf("leader %s: %v", tc.how, err)
		}
		s.await("two controllers are ready", func(context.Context) error { return s.pods.allReady(controllerName, 2) })
	}
}

// awaitServedBy waits until this leader's own render has reached both proxies.
func (s *stage) awaitServedBy(leader *corev1.Pod) {
	s.t.Helper()
	served := regexp.MustCompile(`(?m)^holdfast_controller_deployments_total\{outcome="(noop|served)"\} ([2-9]|\d\d+)$`)
	s.await("the leader has served both proxies", func(ctx context.Context) error {
		metrics, err := s.controller(ctx, leader, "/metrics")
		if err == nil && !served.MatchString(metrics) {
			err = fmt.Errorf("deployments are %q, want two", samples(metrics, "holdfast_controller_deployments_total"))
		}
		return err
	})
}
