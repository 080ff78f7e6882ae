package active

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	first, second = "10.0.0.1", "10.0.0.2"
	// enough for every wait that ends by itself.
	enough = time.Minute
)

// until lets virtual time pass until something holds, and returns how long it took.
func until(t *testing.T, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		synctest.Wait()
		if holds() {
			return time.Since(began)
		}
		if time.Since(began) > enough {
			t.Fatalf("it never came true that %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func leads(c *fakeCluster, address string) func() bool {
	return func() bool { return c.leading() == address }
}

func bubble(name string, t *testing.T, run func(t *testing.T, c *fakeCluster)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { run(t, newCluster()) })
	})
}

func TestTakeover(t *testing.T) {
	bubble("a sudden death is made good within six seconds", t, func(t *testing.T, c *fakeCluster) {
		a, b := start(t, c, first), start(t, c, second)
		until(t, "one is active", func() bool { return c.leading() != "" })
		worst := time.Duration(0)
		for range 40 {
			dead, next := a, second
			if c.leading() == second {
				dead, next = b, first
			}
			time.Sleep(7 * time.Second)
			dead.kill()
			took := until(t, "the other one is active", leads(c, next))
			worst = max(worst, took)
			if dead == a {
				a = start(t, c, first)
			} else {
				b = start(t, c, second)
			}
		}
		t.Logf("worst of 40 takeovers: %s", worst)
		if worst > 6*time.Second {
			t.Errorf("a takeover took %s, want at most 6 s", worst)
		}
	})

	bubble("nobody tries before it has answers", t, func(t *testing.T, c *fakeCluster) {
		var ready atomic.Bool
		config, _ := configFor(c, first, &numbering{})
		config.Ready = func() error {
			if ready.Load() {
				return nil
			}
			return errors.New("verifying")
		}
		r, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		go r.Run(t.Context())
		time.Sleep(enough)
		if writes := c.state().writes; writes != 0 || c.leading() != "" {
			t.Errorf("%d writes, leading to %q", writes, c.leading())
		}
		ready.Store(true)
		until(t, "it is active", leads(c, first))
	})

	bubble("a term begins above the recorded stamp, whatever the clock says", t, func(t *testing.T, c *fakeCluster) {
		future := time.Now().Add(1000 * time.Hour)
		setStamp(c.lease, future)
		p := start(t, c, first)
		until(t, "it is active", leads(c, first))
		if diff := cmp.Diff([]int64{0, future.UnixMilli() + 1}, p.views.stamps()); diff != "" {
			t.Errorf("stamps (-want +got):\n%s", diff)
		}
		if stamp, _ := stampOf(c.state().lease); stamp.UnixMilli() != future.UnixMilli()+1 {
			t.Errorf("recorded %s", stamp)
		}
	})

	bubble("a write whose reply is lost begins no term", t, func(t *testing.T, c *fakeCluster) {
		config, to := configFor(c, first, &numbering{})
		to.loseReplies(true)
		r, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		go r.Run(t.Context())
		time.Sleep(enough)
		if !r.Leaving() || c.leading() != "" {
			t.Errorf("leaving %t, leading to %q", r.Leaving(), c.leading())
		}
		to.loseReplies(false)
		until(t, "it is active", leads(c, first))
	})

	bubble("the slice is led back when somebody empties it", t, func(t *testing.T, c *fakeCluster) {
		start(t, c, first)
		until(t, "it is active", leads(c, first))
		c.mu.Lock()
		c.slice.Endpoints, c.slice.ResourceVersion = nil, "tampered"
		c.mu.Unlock()
		until(t, "it is active again", leads(c, first))
	})
}

func TestLosingTheLease(t *testing.T) {
	bubble("whoever takes it back goes on with its history", t, func(t *testing.T, c *fakeCluster) {
		p := start(t, c, first)
		until(t, "it is active", leads(c, first))
		before := p.views.stamps()
		p.link.cut(true)
		time.Sleep(2500 * time.Millisecond)
		p.link.cut(false)
		time.Sleep(enough)
		if diff := cmp.Diff(before, p.views.stamps()); diff != "" {
			t.Errorf("renumbered (-before +after):\n%s", diff)
		}
		if p.Leaving() {
			t.Error("the active replica sends clients away")
		}
	})

	bubble("a former active answers as before until clients are led elsewhere, then as a standby", t, func(t *testing.T, c *fakeCluster) {
		a := start(t, c, first)
		until(t, "the first is active", leads(c, first))
		b := start(t, c, second)
		a.link.cut(true)
		time.Sleep(2500 * time.Millisecond)
		a.link.cut(false)
		if a.Leaving() {
			t.Error("clients are sent away while the slice still leads here")
		}
		a.link.cut(true)
		until(t, "the second is active", leads(c, second))
		a.link.cut(false)
		until(t, "the first sends clients away", a.Leaving)
		if n := len(a.views.stamps()); n != 2 {
			t.Errorf("numbered %d times, want the history kept for clients on their way", n)
		}
		until(t, "the first is a standby", func() bool { return len(a.views.stamps()) == 3 })
		stamps := a.views.stamps()
		if stamps[2] != 0 || b.views.stamps()[1] <= stamps[1] {
			t.Errorf("stamps %v, then %v", stamps, b.views.stamps())
		}
	})

	bubble("a replica that was paused does not put itself over its successor", t, func(t *testing.T, c *fakeCluster) {
		config, to := configFor(c, first, &numbering{})
		resume := make(chan struct{})
		paused := make(chan struct{})
		to.beforeSliceWrite = func() {
			to.cut(true)
			close(paused)
			<-resume
			to.cut(false)
		}
		a, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		go a.Run(t.Context())
		<-paused
		start(t, c, second)
		until(t, "the second is active", leads(c, second))
		close(resume)
		time.Sleep(enough)
		if diff := cmp.Diff([]string{second}, c.state().led); diff != "" {
			t.Errorf("led to (-want +got):\n%s", diff)
		}
	})
}

func TestHandOver(t *testing.T) {
	bubble("the next one is in the slice before the old one stops", t, func(t *testing.T, c *fakeCluster) {
		a := start(t, c, first)
		until(t, "the first is active", leads(c, first))
		start(t, c, second)
		time.Sleep(enough)
		began := time.Now()
		var switched time.Duration
		done := make(chan struct{})
		go func() { a.HandOver(context.Background()); close(done) }()
		switched = until(t, "the second is active", leads(c, second))
		<-done
		took := time.Since(began)
		t.Logf("switched after %s, returned after %s", switched, took)
		if switched > 1200*time.Millisecond || took < switched+lag || took > switched+lag+time.Second {
			t.Errorf("switched after %s, returned after %s", switched, took)
		}
		if diff := cmp.Diff([]string{first, second}, c.state().led); diff != "" {
			t.Errorf("led to (-want +got):\n%s", diff)
		}
		if len(a.views.stamps()) != 2 || !a.Leaving() {
			t.Errorf("stamps %v, leaving %t", a.views.stamps(), a.Leaving())
		}
	})

	bubble("the last one leaves an empty slice", t, func(t *testing.T, c *fakeCluster) {
		a := start(t, c, first)
		until(t, "it is active", leads(c, first))
		began := time.Now()
		a.HandOver(context.Background())
		if took := time.Since(began); c.leading() != "" || took < a.HandOverLimit || took > a.HandOverLimit+time.Second {
			t.Errorf("leading to %q after %s", c.leading(), took)
		}
	})

	bubble("a standby has nothing to hand over", t, func(t *testing.T, c *fakeCluster) {
		start(t, c, first)
		until(t, "the first is active", leads(c, first))
		b := start(t, c, second)
		time.Sleep(enough)
		began := time.Now()
		b.HandOver(context.Background())
		if took := time.Since(began); took > 0 || c.leading() != first {
			t.Errorf("took %s, leading to %s", took, c.leading())
		}
	})

	bubble("the release spares a successor's Lease", t, func(t *testing.T, c *fakeCluster) {
		a := start(t, c, first)
		until(t, "the first is active", leads(c, first))
		b := start(t, c, second)
		a.link.cut(true)
		until(t, "the second is active", leads(c, second))
		a.link.cut(false)
		a.HandOver(context.Background())
		if got := holder(c.state().lease); got != b.lock.identity {
			t.Errorf("the Lease is held by %q, want %q", got, b.lock.identity)
		}
	})
}
