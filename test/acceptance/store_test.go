package acceptance

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// publication is what must stay as it is while nothing is rendered.
type publication struct {
	UID      string
	Spec     v1alpha1.HAProxyCfgSpec
	Pointers []v1alpha1.RetainedConfigReference
	// Checkpoints are the resource versions, by name.
	Checkpoints map[string]string
}

func (s *stage) cfg(ctx context.Context, name string) (*v1alpha1.HAProxyCfg, error) {
	return s.haptic.HapticV1alpha1().HAProxyCfgs(s.namespace).Get(ctx, name, metav1.GetOptions{})
}

func (s *stage) ordinary(ctx context.Context) (*v1alpha1.HAProxyCfg, error) {
	return s.cfg(ctx, checkpoint.OrdinaryName(templateName))
}

func (s *stage) publication() publication {
	s.t.Helper()
	ordinary, err := s.ordinary(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	list, err := s.haptic.HapticV1alpha1().HAProxyCfgs(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	p := publication{
		UID: string(ordinary.UID), Spec: ordinary.Spec, Pointers: ordinary.Status.RetainedConfigs, Checkpoints: map[string]string{},
	}
	for i := range list.Items {
		if cfg := &list.Items[i]; record.IsCheckpoint(cfg) {
			p.Checkpoints[cfg.Name] = cfg.ResourceVersion
		}
	}
	return p
}

// intent is the recorded intent.
func (s *stage) intent(ctx context.Context) (fencing.Intent, error) {
	lease, err := s.core.CoordinationV1().Leases(s.namespace).Get(ctx, checkpoint.RetainedStateLeaseName(templateName), metav1.GetOptions{})
	if err != nil {
		return fencing.Intent{}, err
	}
	intent, present, err := fencing.ParseIntent(lease.Annotations[v1alpha1.AnnotationDeploymentIntent])
	if err == nil && !present {
		err = fmt.Errorf("lease %s carries no intent", lease.Name)
	}
	return intent, err
}

// intendedChecksum is the checksum of the intent.
func (s *stage) intendedChecksum() string {
	s.t.Helper()
	intent, err := s.intent(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return intent.Checksum
}

// wantActive wants the Lease's mark of recovery to name that checkpoint, or with
// an empty checksum to be gone.
func (s *stage) wantActive(ctx context.Context, checksum string) error {
	intent, err := s.intent(ctx)
	if err != nil {
		return err
	}
	found := ""
	if intent.Active != nil {
		found = intent.Active.Checksum
	}
	if found != checksum {
		return fmt.Errorf("the retained-state lease marks checkpoint %q active, want %q", found, checksum)
	}
	return nil
}

// intended is the checkpoint that the intent names, when it is promoted.
func (s *stage) intended(ctx context.Context) (*v1alpha1.HAProxyCfg, error) {
	intent, err := s.intent(ctx)
	if err != nil {
		return nil, err
	}
	ordinary, err := s.ordinary(ctx)
	if err != nil {
		return nil, err
	}
	for _, pointer := range ordinary.Status.RetainedConfigs {
		if pointer.Checksum == intent.Checksum {
			return s.cfg(ctx, pointer.Name)
		}
	}
	return nil, fmt.Errorf("none of %d pointers names %s, which is intended", len(ordinary.Status.RetainedConfigs), intent.Checksum)
}

// awaitCheckpoint waits until the newest pointer names what the intent does and
// what every proxy runs, so that nothing is published any more.
func (s *stage) awaitCheckpoint() *v1alpha1.HAProxyCfg {
	s.t.Helper()
	var found *v1alpha1.HAProxyCfg
	s.await("the checkpoint of the intended output is promoted", func(ctx context.Context) error {
		cfg, err := s.intended(ctx)
		if err != nil {
			return err
		}
		found = cfg
		ordinary, err := s.ordinary(ctx)
		if err != nil {
			return err
		}
		if newest := ordinary.Status.RetainedConfigs[0]; newest.Name != cfg.Name {
			return fmt.Errorf("the newest pointer names %s, want %s", newest.Name, cfg.Name)
		}
		if ordinary.Spec.Checksum != cfg.Spec.Checksum {
			return fmt.Errorf("the ordinary output is %s, want %s", ordinary.Spec.Checksum, cfg.Spec.Checksum)
		}
		return nil
	})
	return found
}

// settle waits until the intended output is retained and no proxy has a reload to
// come: several applies in a row are paced by the agents.
func (s *stage) settle() *v1alpha1.HAProxyCfg {
	s.t.Helper()
	cfg := s.awaitCheckpoint()
	s.await("every pod is on the current output", func(ctx context.Context) error {
		return s.wantAllOn(ctx, cfg.Spec.Checksum, s.pods.living(proxyName))
	})
	return cfg
}

// release deploys another release and waits until it is retained.
func (s *stage) release(release string, replicas int) *v1alpha1.HAProxyCfg {
	s.t.Helper()
	s.setInput("release", release)
	s.awaitRelease(release, replicas)
	return s.settle()
}

// point rewrites the list of pointers.
func (s *stage) point(pointers ...v1alpha1.RetainedConfigReference) {
	s.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		ordinary, err := s.ordinary(s.t.Context())
		if err != nil {
			return err
		}
		ordinary.Status.RetainedConfigs = pointers
		_, err = s.haptic.HapticV1alpha1().HAProxyCfgs(s.namespace).UpdateStatus(s.t.Context(), ordinary, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// setContent changes the stored configuration and leaves its checksum.
func (s *stage) setContent(name, content string) {
	s.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		cfg, err := s.cfg(s.t.Context(), name)
		if err != nil {
			return err
		}
		cfg.Spec.Content = content
		_, err = s.haptic.HapticV1alpha1().HAProxyCfgs(s.namespace).Update(s.t.Context(), cfg, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
