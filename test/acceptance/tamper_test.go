package acceptance

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// editIntent changes the recorded intent behind the leader's back.
func (s *stage) editIntent(edit func(*fencing.Intent)) (undo func()) {
	s.t.Helper()
	var before fencing.Intent
	write := func(change func(*fencing.Intent)) {
		s.t.Helper()
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			leases := s.core.CoordinationV1().Leases(s.namespace)
			lease, err := leases.Get(s.t.Context(), checkpoint.RetainedStateLeaseName(templateName), metav1.GetOptions{})
			if err != nil {
				return err
			}
			intent := record.RetainedLease(lease).Intent.Intent
			if before.PlanID == "" {
				before = intent
			}
			change(&intent)
			_, err = leases.Update(s.t.Context(), record.WithIntent(lease, intent), metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	write(edit)
	return func() {
		write(func(i *fencing.Intent) { i.PlanID, i.Checksum = before.PlanID, before.Checksum })
	}
}

// editRole changes what the controllers may do.
func (s *stage) editRole(edit func(*rbacv1.PolicyRule)) (undo func()) {
	s.t.Helper()
	roles := s.core.RbacV1().Roles(s.namespace)
	role, err := roles.Get(s.t.Context(), "holdfast-controller", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	before := role.DeepCopy().Rules
	write := func(rules []rbacv1.PolicyRule) {
		s.t.Helper()
		role.Rules = rules
		if role, err = roles.Update(s.t.Context(), role, metav1.UpdateOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
	edited := role.DeepCopy().Rules
	for i := range edited {
		edit(&edited[i])
	}
	write(edited)
	return func() { write(before) }
}

// editCfg changes a stored output, and editCfgStatus its status.
func (s *stage) editCfg(name string, edit func(*v1alpha1.HAProxyCfg)) (undo func()) {
	s.t.Helper()
	before := s.changeCfg(name, edit)
	return func() {
		s.changeCfg(name, func(cfg *v1alpha1.HAProxyCfg) {
			cfg.Spec, cfg.Annotations, cfg.OwnerReferences = before.Spec, before.Annotations, before.OwnerReferences
		})
	}
}

func (s *stage) changeCfg(name string, edit func(*v1alpha1.HAProxyCfg)) (before *v1alpha1.HAProxyCfg) {
	s.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		cfg, err := s.cfg(s.t.Context(), name)
		if err != nil {
			return err
		}
		before = cfg.DeepCopy()
		edit(cfg)
		_, err = s.haptic.HapticV1alpha1().HAProxyCfgs(s.namespace).Update(s.t.Context(), cfg, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return before
}

func (s *stage) editCfgStatus(name string, edit func(*v1alpha1.HAProxyCfgStatus)) (undo func()) {
	s.t.Helper()
	var before *v1alpha1.HAProxyCfgStatus
	change := func(edit func(*v1alpha1.HAProxyCfgStatus)) {
		s.t.Helper()
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			cfg, err := s.cfg(s.t.Context(), name)
			if err != nil {
				return err
			}
			if before == nil {
				before = cfg.Status.DeepCopy()
			}
			edit(&cfg.Status)
			_, err = s.haptic.HapticV1alpha1().HAProxyCfgs(s.namespace).UpdateStatus(s.t.Context(), cfg, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	change(edit)
	return func() { change(func(status *v1alpha1.HAProxyCfgStatus) { *status = *before }) }
}

// movePointers exchanges two pointers all the time, until undone.
func (r *refusals) movePointers() (undo func()) {
	r.t.Helper()
	pointers := r.publication().Pointers
	if len(pointers) < 2 {
		r.t.Fatalf("%d pointers, want two to exchange", len(pointers))
	}
	ctx, stop := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			ordinary, err := r.ordinary(ctx)
			if err != nil {
				continue
			}
			list := ordinary.Status.RetainedConfigs
			list[0], list[1] = list[1], list[0]
			// One that was overtaken is tried again.
			_, _ = r.haptic.HapticV1alpha1().HAProxyCfgs(r.namespace).UpdateStatus(ctx, ordinary, metav1.UpdateOptions{})
		}
	}()
	return func() {
		stop()
		<-done
		r.point(pointers...)
	}
}
