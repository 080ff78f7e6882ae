package viewfeed

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/viewcache"
)

// pipeline is a running feed over a cluster in memory.
type pipeline struct {
	*testing.T
	cluster *cluster
	fixture *fixture
	views   *Views
	feed    *Feed
}

// running starts a feed in a bubble, which fails if a goroutine outlives it.
func running(t *testing.T, prepare func(c *cluster, f *fixture, config *Config), body func(p *pipeline)) {
	t.Helper()
	fixture := newFixture(t, "one")
	synctest.Test(t, func(t *testing.T) {
		p := &pipeline{T: t, cluster: newCluster(), fixture: fixture}
		metrics := NewMetrics(prometheus.NewRegistry())
		p.views = NewViews(time.Now(), metrics)
		config := Config{Client: p.cluster, Views: p.views, Metrics: metrics}
		if prepare != nil {
			prepare(p.cluster, p.fixture, &config)
		} else {
			p.putAll()
		}
		p.feed = New(config)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.feed.Run(ctx) }()
		synctest.Wait()
		body(p)
		stop()
		<-done
		p.views.Close()
	})
}

func (p *pipeline) putAll() {
	for _, obj := range p.fixture.all() {
		p.cluster.put(obj)
	}
}

func (p *pipeline) put(obj stored) {
	p.cluster.put(obj)
	synctest.Wait()
}

func (p *pipeline) remove(obj stored) {
	p.cluster.remove(obj)
	synctest.Wait()
}

// judged is what tests compare of a view.
type judged struct {
	Verified, Reason, Recoverable, Blocked string
}

func (p *pipeline) checkpoint() *views.RetainedCheckpoint {
	p.Helper()
	v, ok := p.views.Checkpoints.Get(namespace, p.fixture.checkpoint.Name)
	if !ok {
		p.Fatalf("there is no view of checkpoint %s", p.fixture.checkpoint.Name)
	}
	return v
}

func (p *pipeline) intent() *views.DeploymentIntent {
	p.Helper()
	v, ok := p.views.Intents.Get(namespace, templateName)
	if !ok {
		p.Fatal("there is no view of the intent")
	}
	return v
}

func (p *pipeline) expect(want judged) {
	p.Helper()
	v := p.checkpoint()
	verified := meta.FindStatusCondition(v.Status.Conditions, views.ConditionVerified)
	recoverable := meta.FindStatusCondition(v.Status.Conditions, views.ConditionRecoverable)
	got := judged{string(verified.Status), verified.Reason, string(recoverable.Status), recoverable.Reason}
	if diff := cmp.Diff(want, got); diff != "" {
		p.Errorf("view (-want +got):\n%s\nverified: %s\nrecoverable: %s", diff, verified.Message, recoverable.Message)
	}
}

var sound = judged{"True", "Verified", "True", "Recoverable"}

func TestSoundCheckpointBecomesRecoverable(t *testing.T) {
	running(t, nil, func(p *pipeline) {
		if err := p.feed.Ready(); err != nil {
			t.Fatalf("not ready: %v", err)
		}
		p.expect(sound)
		v := p.checkpoint()
		if v.Status.Position != views.PositionNewest || v.Status.PlanID != p.fixture.planID || v.Status.Receipt == nil || v.Status.Receipt.Pod != "proxy-1" {
			t.Errorf("view = %+v", v.Status)
		}
		intent := p.intent()
		for _, condition := range intent.Status.Conditions {
			want := metav1.ConditionTrue
			if condition.Type == views.ConditionActive {
				want = metav1.ConditionFalse
			}
			if condition.Status != want {
				t.Errorf("intent condition %s = %s (%s: %s), want %s", condition.Type, condition.Status, condition.Reason, condition.Message, want)
			}
		}
		if intent.Status.Checkpoint != v.Name {
			t.Errorf("the intent names checkpoint %q, want %q", intent.Status.Checkpoint, v.Name)
		}
	})
}

// TestP4gTamperedFileChangesTheViewAndRepairChangesItBack: the stored checkpoint
// itself is not touched, and its view is another one all the same.
func TestP4gTamperedFileChangesTheViewAndRepairChangesItBack(t *testing.T) {
	running(t, nil, func(p *pipeline) {
		before, version := p.cluster.gets, p.checkpoint().ResourceVersion
		p.put(p.fixture.tampered())
		p.expect(judged{"False", "ChecksumMismatch", "False", "NotVerified"})
		v := p.checkpoint()
		if v.ResourceVersion == version {
			t.Errorf("the view has another verdict and is still version %s", version)
		}
		message := meta.FindStatusCondition(v.Status.Conditions, views.ConditionVerified).Message
		if !strings.Contains(message, p.fixture.hosts.Name) {
			t.Errorf("the message names no file: %s", message)
		}
		if got := v.Status.Artifacts[0]; got.Verdict != "Damaged" || got.Path != "maps/hosts.map" {
			t.Errorf("artifact = %+v", got)
		}
		recoverable := meta.FindStatusCondition(p.intent().Status.Conditions, views.ConditionRecoverable)
		if recoverable.Status != metav1.ConditionFalse {
			t.Errorf("the intent is recoverable: %+v", recoverable)
		}
		p.put(p.fixture.hosts)
		p.expect(sound)
		if p.cluster.gets != before {
			t.Errorf("tampering and repair took %d live reads, want none", p.cluster.gets-before)
		}
	})
}

// TestIntentConditionsAreToldAsNumbers: what alerts are made of follows the view,
// with one status for each condition, and goes with the template.
func TestIntentConditionsAreToldAsNumbers(t *testing.T) {
	running(t, nil, func(p *pipeline) {
		recoverable := func(status string) float64 {
			return testutil.ToFloat64(p.feed.metrics.Intents.WithLabelValues(namespace, templateName, views.ConditionRecoverable, status))
		}
		if yes, no := recoverable("True"), recoverable("False"); yes != 1 || no != 0 {
			t.Errorf("a sound checkpoint: True is %v, False is %v", yes, no)
		}
		p.put(p.fixture.tampered())
		if yes, no := recoverable("True"), recoverable("False"); yes != 0 || no != 1 {
			t.Errorf("a damaged one: True is %v, False is %v", yes, no)
		}
		p.remove(p.fixture.template)
		if left := testutil.CollectAndCount(p.feed.metrics.Intents); left != 0 {
			t.Errorf("%d series are left of a template that is gone", left)
		}
	})
}

func TestTamperedSecretAndConfigurationAreFound(t *testing.T) {
	running(t, nil, func(p *pipeline) {
		secret := p.fixture.certificate.DeepCopy()
		secret.Data[v1alpha1.SecretKeyCertificate][40] ^= 1
		p.put(secret)
		p.expect(judged{"False", "ChecksumMismatch", "False", "NotVerified"})
		p.put(p.fixture.certificate)
		p.expect(sound)

		cfg := p.fixture.checkpoint.DeepCopy()
		cfg.Spec.Content += "# added\n"
		p.put(cfg)
		p.expect(judged{"False", "PlanDigestMismatch", "False", "NotVerified"})
		p.put(p.fixture.checkpoint)
		p.expect(sound)
	})
}

func TestRenewalsChangeNoView(t *testing.T) {
	running(t, nil, func(p *pipeline) {
		was := testutil.ToFloat64(p.feed.metrics.Judgements)
		_, version, _ := p.views.Intents.List(viewcache.Match{}, nil)
		for range 5 {
			renewed := p.fixture.election.DeepCopy()
			renewed.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
			p.put(renewed)
		}
		if now := testutil.ToFloat64(p.feed.metrics.Judgements); now != was {
			t.Errorf("renewals caused %v judgements", now-was)
		}
		if _, now, _ := p.views.Intents.List(viewcache.Match{}, nil); now != version {
			t.Errorf("renewals moved the version from %s to %s", version, now)
		}
	})
}

func TestOnlyDependentViewsAreJudged(t *testing.T) {
	other := newFixture(t, "two")
	running(t, func(c *cluster, f *fixture, _ *Config) {
		for _, obj := range f.all() {
			c.put(obj)
		}
		c.put(other.checkpoint)
	}, func(p *pipeline) {
		unrelated := p.fixture.hosts.DeepCopy()
		unrelated.Name = "unrelated"
		was := testutil.ToFloat64(p.feed.metrics.Judgements)
		p.put(unrelated)
		if now := testutil.ToFloat64(p.feed.metrics.Judgements); now != was {
			t.Errorf("a file that nobody references caused %v judgements", now-was)
		}
		p.put(other.checkpoint)
		if now := testutil.ToFloat64(p.feed.metrics.Judgements); now != was+1 {
			t.Errorf("one checkpoint caused %v judgements", now-was)
		}
	})
}

func TestIntentThatMovesOnTakesRecoverableAway(t *testing.T) {
	running(t, nil, func(p *pipeline) {
		moved := p.fixture.retained.DeepCopy()
		moved.Annotations[v1alpha1.AnnotationDeploymentIntent] = strings.ReplaceAll(
			moved.Annotations[v1alpha1.AnnotationDeploymentIntent], p.fixture.checksum, "0123456789abcdef")
		p.put(moved)
		p.expect(judged{"True", "Verified", "False", "NotIntended"})
		checkpointed := meta.FindStatusCondition(p.intent().Status.Conditions, views.ConditionCheckpointed)
		if checkpointed.Status != metav1.ConditionFalse || checkpointed.Reason != "CheckpointMissing" {
			t.Errorf("Checkpointed = %+v", checkpointed)
		}
	})
}

func TestDeletedAndRestoredFile(t *testing.T) {
	running(t, nil, func(p *pipeline) {
		p.remove(p.fixture.page)
		p.expect(judged{"False", "ChildMissing", "False", "NotVerified"})
		p.put(p.fixture.page)
		p.expect(sound)
		p.remove(p.fixture.checkpoint)
		if p.views.Checkpoints.Len() != 0 {
			t.Error("a deleted checkpoint still has a view")
		}
	})
}

func TestFileThatComesAfterItsReferenceIsNoDamage(t *testing.T) {
	running(t, func(c *cluster, f *fixture, _ *Config) {
		for _, obj := range f.all() {
			c.put(obj)
		}
	}, func(p *pipeline) {
		p.remove(p.fixture.checkpoint)
		p.remove(p.fixture.page)
		hold := make(chan struct{})
		p.cluster.hold = hold
		p.put(p.fixture.checkpoint)
		p.expect(judged{"Unknown", "Verifying", "Unknown", "Verifying"})
		p.put(p.fixture.page)
		close(hold)
		synctest.Wait()
		p.expect(sound)
	})
}

func TestServerIsNotReadyBeforeEveryCheckpointWasStreamed(t *testing.T) {
	hold := make(chan struct{})
	running(t, func(c *cluster, f *fixture, _ *Config) {
		for _, obj := range f.all() {
			c.put(obj)
		}
		c.hold = make(chan struct{})
		hold = c.hold
	}, func(p *pipeline) {
		if err := p.feed.Ready(); err == nil || !strings.Contains(err.Error(), "verifying") {
			t.Errorf("Ready = %v, want what it waits for", err)
		}
		close(hold)
		synctest.Wait()
		if err := p.feed.Ready(); err != nil {
			t.Errorf("Ready = %v after the first round", err)
		}
		p.expect(sound)
	})
}

func TestBrokenStreamsLoseNothing(t *testing.T) {
	running(t, nil, func(p *pipeline) {
		p.cluster.breakWatches()
		p.cluster.put(p.fixture.tampered())
		time.Sleep(time.Minute)
		synctest.Wait()
		p.expect(judged{"False", "ChecksumMismatch", "False", "NotVerified"})

		p.cluster.breakWatches()
		p.cluster.remove(p.fixture.page)
		p.cluster.put(p.fixture.hosts)
		time.Sleep(time.Minute)
		synctest.Wait()
		p.expect(judged{"False", "ChildMissing", "False", "NotVerified"})
	})
}

func TestViewsHoldNoContent(t *testing.T) {
	running(t, nil, func(p *pipeline) {
		p.put(p.fixture.tampered())
		for _, v := range []any{p.checkpoint(), p.intent()} {
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{"PRIVATE KEY", "Zm9ydHkgY2hhcmFjdGVycyBvZiBhIHByaXZhdGUga2V5", "maxconn", "a.example", "SECRETCLAIM"} {
				if strings.Contains(string(text), secret) {
					t.Errorf("%T holds %q", v, secret)
				}
			}
		}
	})
}
