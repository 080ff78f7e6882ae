package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/holdfast-project/holdfast/generated/informers/externalversions"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

const (
	// soakInterval is the mean pause between two acts.
	soakInterval = 100 * time.Millisecond
	// soakRestarts is how often the API server is replaced, whatever the duration.
	soakRestarts = 2
	// soakDeletes is after how many acts, in the mean, a checkpoint is deleted, so
	// that a short soak sees that too.
	soakDeletes = 20
	// soakSettle is how long after the end everything may take to be right.
	soakSettle = 2 * time.Minute
)

// measureSoak does random things for a while, with the API server replaced in
// between, and compares what an informer holds at the end with the truth.
func measureSoak(ctx context.Context, c *cluster, s settings, r *report) error {
	if err := c.prepared(ctx, largeNamespace, largeShape); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t, err := c.newTampering(ctx)
	if err != nil {
		return err
	}
	victims, err := t.victims(ctx, len(t.checkpoints))
	if err != nil {
		return err
	}
	factory := externalversions.NewSharedInformerFactoryWithOptions(c.stored, 0, externalversions.WithNamespace(largeNamespace))
	informer := factory.Retained().V1alpha1().RetainedCheckpoints().Informer()
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return errors.New("the informer never synced")
	}
	soak := &soak{c: c, victims: victims, rand: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)), gone: map[string]bool{}}
	if err := soak.run(ctx, s.soak); err != nil {
		return err
	}
	if soak.restarts == 0 || len(soak.gone) == 0 {
		return fmt.Errorf("%s was too short: %d restarts, %d deleted checkpoints", s.soak, soak.restarts, len(soak.gone))
	}
	err = eventually(ctx, "the informer's store to equal the truth", soakSettle, func(ctx context.Context) error {
		return soak.compare(ctx, informer.GetStore())
	})
	if err != nil {
		return err
	}
	say("  %s: %d changes of files, %d deleted checkpoints, %d restarts; the informer's store equals the truth", s.soak, soak.flips, len(soak.gone), soak.restarts)
	r.add(target{name: "soak-differences", value: 0, bound: 0, relation: equal})
	return nil
}

// soak is what was done so far.
type soak struct {
	c               *cluster
	victims         []*victim
	rand            *rand.Rand
	gone            map[string]bool
	flips, restarts int
}

func (k *soak) run(ctx context.Context, duration time.Duration) error {
	started := time.Now()
	p := progress{what: "seconds of soaking", total: int(duration.Seconds())}
	for time.Since(started) < duration {
		if done := time.Since(started); done > duration*time.Duration(k.restarts+1)/(soakRestarts+1) {
			paused := time.Now()
			if err := k.c.restart(ctx, largeNamespace); err != nil {
				return err
			}
			k.restarts++
			// While no server answers, nothing is soaked.
			started = started.Add(time.Since(paused))
		}
		if err := k.act(ctx); err != nil {
			return err
		}
		p.at(int(time.Since(started).Seconds()))
		if err := wait(ctx, time.Duration(k.rand.Int64N(int64(2*soakInterval)))); err != nil {
			return err
		}
	}
	return nil
}

// act tampers with a file or repairs it, or at times deletes a checkpoint.
func (k *soak) act(ctx context.Context) error {
	v := k.victims[k.rand.IntN(len(k.victims))]
	switch {
	case k.gone[v.checkpoint]:
		return nil
	case k.rand.IntN(soakDeletes) == 0 && len(k.gone) < len(k.victims)/2:
		err := k.c.stored.HapticV1alpha1().HAProxyCfgs(largeNamespace).Delete(ctx, v.checkpoint, metav1.DeleteOptions{})
		if err != nil {
			return fmt.Errorf("deleting checkpoint %s: %w", v.checkpoint, err)
		}
		k.gone[v.checkpoint] = true
		return nil
	}
	k.flips++
	return k.c.flip(ctx, v)
}

// compare requires the informer to have what a list has, to the version, and
// each view to say what was done to its checkpoint.
func (k *soak) compare(ctx context.Context, store cache.Store) error {
	list, err := k.c.stored.RetainedV1alpha1().RetainedCheckpoints(largeNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the views: %w", err)
	}
	held, want, got := map[string]*views.RetainedCheckpoint{}, map[string]metav1.ConditionStatus{}, map[string]metav1.ConditionStatus{}
	for _, obj := range store.List() {
		v, ok := obj.(*views.RetainedCheckpoint)
		if !ok {
			return fmt.Errorf("the store holds a %T", obj)
		}
		held[v.Name] = v
	}
	for _, v := range k.victims {
		if !k.gone[v.checkpoint] {
			want[v.checkpoint] = metav1.ConditionTrue
			if v.tampered {
				want[v.checkpoint] = metav1.ConditionFalse
			}
		}
	}
	listed := map[string]*views.RetainedCheckpoint{}
	for i := range list.Items {
		v := &list.Items[i]
		listed[v.Name] = v
		got[v.Name] = meta.FindStatusCondition(v.Status.Conditions, views.ConditionVerified).Status
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("verdicts (-as done +as listed):\n%s", diff)
	}
	if diff := cmp.Diff(listed, held); diff != "" {
		return fmt.Errorf("objects (-listed +held by the informer):\n%s", diff)
	}
	return nil
}
