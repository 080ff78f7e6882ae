package recovery

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestCancelWaitsForWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, publish(t, site(t, "one")))
		slow := w.add("slow", bootstrapState())
		slow.delay = 30 * time.Second
		w.during(t, func(x *term) {
			w.pass(time.Second)
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			if err := x.Cancel(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Cancel() = %v with an apply under way, want the end of its time", err)
			}
			began := time.Now()
			if err := x.Cancel(context.Background()); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); slow.applies != 1 || took < 20*time.Second {
				t.Errorf("Cancel() returned after %v with %d applies, want it to wait for the apply", took, slow.applies)
			}
			fresh := w.add("fresh", bootstrapState())
			x.Blocked("RenderFailed", "again")
			x.Wake()
			w.pass(5 * time.Minute)
			if fresh.applies != 0 || fresh.reads != 0 {
				t.Errorf("%d applies and %d reads after Cancel, want none", fresh.applies, fresh.reads)
			}
		})
	})
}

func TestNobodyWaitsForAPodThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, publish(t, site(t, "one")))
		w.add("lost", bootstrapState()).delay = time.Hour
		w.during(t, func(x *term) {
			w.pass(time.Second)
			ended := make(chan error)
			go func() { ended <- x.Cancel(context.Background()) }()
			w.pass(time.Minute)
			select {
			case err := <-ended:
				t.Errorf("Cancel() = %v while the pod was there and silent, want it to wait", err)
			default:
			}
			w.remove("lost")
			x.Wake()
			w.pass(time.Second)
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			default:
				t.Error("Cancel() still waits a second after the pod went away")
			}
		})
	})
}

func TestCancelKeepsAStartFromBeginning(t *testing.T) {
	one := site(t, "one")
	for name, place := range map[string]func(w *world, cancel func()){
		"while the store is read":   func(w *world, cancel func()) { w.store.onChildren = cancel },
		"while HAProxy checks":      func(w *world, cancel func()) { w.atGate = cancel },
		"right ahead of the guard":  func(w *world, cancel func()) { w.pods["new-uid"].atGuard = cancel },
		"while the fleet is silent": func(w *world, cancel func()) { w.pods["a-uid"].err = errSilent; go cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, publish(t, one))
				w.add("a", configuredState(t, one))
				fresh := w.add("new", bootstrapState())
				x := w.begin()
				synctest.Wait()
				began := time.Now()
				place(w, func() {
					if err := x.Cancel(context.Background()); err != nil {
						t.Error(err)
					}
					if took := time.Since(began); took > time.Second {
						t.Errorf("Cancel() took %v with nothing under way", took)
					}
				})
				x.Blocked("RenderFailed", "x")
				w.pass(time.Minute)
				if fresh.applies != 0 || w.health != "" {
					t.Errorf("%d applies, health %q after Cancel, want none", fresh.applies, w.health)
				}
				x.stop()
			})
		})
	}
}

func TestTheMarksOfRecoveryStayUntilARenderConverged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := site(t, "one")
		w := newWorld(t, publish(t, one))
		w.add("new", bootstrapState())
		w.during(t, func(x *term) {
			w.pass(time.Second)
			if err := x.Cancel(context.Background()); err != nil {
				t.Error(err)
			}
			w.pass(10 * time.Minute)
			if x.gauge() != 1 || w.intent.Active == nil {
				t.Errorf("gauge %v, mark %v after Cancel, want both to stay", x.gauge(), w.intent.Active)
			}
			w.with(func() { w.activateErr = errors.New("etcd is down") })
			x.Converged()
			w.pass(time.Second)
			if x.gauge() != 0 || w.intent.Active == nil {
				t.Errorf("gauge %v, mark %v after convergence, want 0, and the mark still there", x.gauge(), w.intent.Active)
			}
			w.with(func() { w.activateErr = nil })
			w.pass(DefaultRetry)
			if w.intent.Active != nil {
				t.Errorf("mark %v after the API server answered again, want none", w.intent.Active)
			}
			w.pass(time.Hour)
			if len(w.activations) != 2 {
				t.Errorf("%d writes of the mark, want 2", len(w.activations))
			}
		})
	})
}
