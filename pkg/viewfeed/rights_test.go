package viewfeed

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

func TestWithoutSecretsCertificatesAreUnknown(t *testing.T) {
	running(t, func(c *cluster, f *fixture, config *Config) {
		config.WithoutSecrets = true
		for _, obj := range f.all() {
			if kindOf(obj) != v1alpha1.KindSecret {
				c.put(obj)
			}
		}
		c.refuse[v1alpha1.KindSecret] = apierrors.NewInternalError(context.Canceled)
	}, func(p *pipeline) {
		if err := p.feed.Ready(); err != nil {
			t.Fatalf("not ready: %v", err)
		}
		p.expect(judged{"Unknown", "NotPermitted", "Unknown", "NotPermitted"})
		if p.cluster.gets > 0 {
			t.Errorf("%d live reads", p.cluster.gets)
		}
		p.put(p.fixture.tampered())
		p.expect(judged{"False", "ChecksumMismatch", "False", "NotVerified"})
	})
}

func TestUnlabelledSecretIsReadLiveAndAgain(t *testing.T) {
	running(t, func(c *cluster, f *fixture, _ *Config) {
		for _, obj := range f.all() {
			c.put(obj)
		}
		unlabelled := f.certificate.DeepCopy()
		unlabelled.Labels = nil
		c.put(unlabelled)
	}, func(p *pipeline) {
		v := p.checkpoint()
		if got := v.Status.Artifacts[2]; got.Checksum == "" {
			t.Errorf("the Secret was not read: %+v", got)
		}
		p.put(p.fixture.certificate)
		p.expect(sound)

		unlabelled := p.fixture.certificate.DeepCopy()
		unlabelled.Labels = nil
		p.cluster.remove(p.fixture.certificate)
		time.Sleep(borrowedRecheck + time.Second)
		synctest.Wait()
		p.expect(judged{"False", "ChildMissing", "False", "NotVerified"})
	})
}

func TestKindThatIsNotInstalledIsTolerated(t *testing.T) {
	running(t, func(c *cluster, f *fixture, _ *Config) {
		for _, obj := range f.all() {
			c.put(obj)
		}
		c.refuse[v1alpha1.KindCRTListFile] = apierrors.NewNotFound(schema.GroupResource{Resource: "haproxycrtlistfiles"}, "")
	}, func(p *pipeline) {
		if err := p.feed.Ready(); err != nil {
			t.Fatalf("not ready: %v", err)
		}
		p.expect(sound)
		if got := testutil.ToFloat64(p.feed.metrics.Streams.WithLabelValues(v1alpha1.KindCRTListFile, "absent")); got != 1 {
			t.Errorf("absent streams = %v", got)
		}
		p.cluster.setRefusal(v1alpha1.KindCRTListFile, nil)
		time.Sleep(absentRetry + time.Second)
		synctest.Wait()
		if got := testutil.ToFloat64(p.feed.metrics.Streams.WithLabelValues(v1alpha1.KindCRTListFile, "streaming")); got != 1 {
			t.Errorf("streams after the installation = %v", got)
		}
	})
}

func TestKindThatIsMissingForAMomentKeepsItsObjects(t *testing.T) {
	running(t, nil, func(p *pipeline) {
		missing := apierrors.NewNotFound(schema.GroupResource{Resource: "haproxycfgs"}, "")
		p.cluster.setRefusal(v1alpha1.KindCfg, missing)
		time.Sleep(absentRetry)
		synctest.Wait()
		p.expect(sound)
		p.cluster.setRefusal(v1alpha1.KindCfg, nil)
		time.Sleep(time.Minute)
		p.cluster.setRefusal(v1alpha1.KindCfg, missing)
		time.Sleep(time.Minute)
		synctest.Wait()
		if p.views.Checkpoints.Len() != 0 {
			t.Error("checkpoints outlived their kind")
		}
	})
}

func TestForbiddenKinds(t *testing.T) {
	deny := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", nil)
	tests := []struct {
		name, kind string
		ready      bool
		want       judged
	}{
		{"a file kind makes its files unknown", v1alpha1.KindMapFile, true, judged{"Unknown", "NotPermitted", "Unknown", "NotPermitted"}},
		{"Leases make the intent unknown", KindLease, true, judged{"True", "Verified", "Unknown", "NotPermitted"}},
		{"without outputs nothing can be said", v1alpha1.KindCfg, false, judged{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			running(t, func(c *cluster, f *fixture, _ *Config) {
				for _, obj := range f.all() {
					c.put(obj)
				}
				c.refuse[tc.kind] = deny
			}, func(p *pipeline) {
				if err := p.feed.Ready(); (err == nil) != tc.ready {
					t.Fatalf("Ready = %v, want ready: %v", err, tc.ready)
				}
				if tc.ready {
					p.expect(tc.want)
				}
				p.cluster.setRefusal(tc.kind, nil)
				time.Sleep(absentRetry + time.Second)
				synctest.Wait()
				if err := p.feed.Ready(); err != nil {
					t.Errorf("Ready = %v once it is permitted", err)
				}
				p.expect(sound)
			})
		})
	}
}

func TestRevokedOutputsKeepTheLastAnswer(t *testing.T) {
	running(t, nil, func(p *pipeline) {
		p.cluster.setRefusal(v1alpha1.KindCfg, apierrors.NewForbidden(schema.GroupResource{Resource: "haproxycfgs"}, "", nil))
		time.Sleep(time.Minute)
		synctest.Wait()
		p.expect(sound)
	})
}

func TestOnlyServedNamespacesAreStreamed(t *testing.T) {
	running(t, func(c *cluster, f *fixture, config *Config) {
		config.Namespaces = []string{"other", namespace}
		for _, obj := range f.all() {
			c.put(obj)
		}
		elsewhere := f.template.DeepCopy()
		elsewhere.SetNamespace("elsewhere")
		c.put(elsewhere)
	}, func(p *pipeline) {
		p.expect(sound)
		if p.views.Intents.Len() != 1 {
			t.Errorf("%d intents, want that of namespace %s", p.views.Intents.Len(), namespace)
		}
	})
}

func TestTemplateOfAnotherControllerIsRead(t *testing.T) {
	running(t, func(c *cluster, f *fixture, _ *Config) {
		f.election.Name = "named"
		// Fields of types that ours do not have.
		f.template.Object["spec"] = map[string]any{
			"maps": []any{"x"}, "podSelector": "y",
			"controller": map[string]any{"leaderElection": map[string]any{"enabled": "perhaps", "leaseName": "named"}},
		}
		for _, obj := range f.all() {
			c.put(obj)
		}
	}, func(p *pipeline) {
		p.expect(sound)
		fenced := meta.FindStatusCondition(p.intent().Status.Conditions, views.ConditionFenced)
		if fenced.Status != metav1.ConditionTrue {
			t.Errorf("Fenced = %+v", fenced)
		}
	})
}

func TestSecretThatLosesItsLabelIsNoMissingOne(t *testing.T) {
	running(t, nil, func(p *pipeline) {
		p.expect(sound)
		unlabelled := p.fixture.certificate.DeepCopy()
		unlabelled.Labels = nil
		p.put(unlabelled)
		p.expect(judged{"False", "SecretMalformed", "False", "NotVerified"})
		p.put(p.fixture.certificate)
		p.expect(sound)
	})
}

func TestUnlabelledSecretIsFoundAfterSecretsWereForbidden(t *testing.T) {
	running(t, nil, func(p *pipeline) {
		p.expect(sound)
		p.cluster.setRefusal(v1alpha1.KindSecret, apierrors.NewForbidden(corev1.Resource("secrets"), "", nil))
		time.Sleep(time.Minute)
		synctest.Wait()
		unlabelled := p.fixture.certificate.DeepCopy()
		unlabelled.Labels = nil
		p.put(unlabelled)
		p.cluster.setRefusal(v1alpha1.KindSecret, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		p.expect(judged{"False", "SecretMalformed", "False", "NotVerified"})
	})
}
