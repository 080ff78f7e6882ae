package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	stored "github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

const (
	watcherCount     = 200
	changesPerSecond = 50
	watchersChanges  = 20 * changesPerSecond
	// watchersVictims are changed in turn, so that no object is changed twice
	// before everybody has heard of the first time.
	watchersVictims = 250
	// arriveLimit is how long after the last change its events may come.
	arriveLimit = time.Minute
	// writers is how many changes may be on their way at once.
	writers = 8
)

// victim is a checkpoint and a file of it to change.
type victim struct {
	checkpoint, object, entries string
	tampered                    bool
}

// measureWatchers has many watchers of the views while files are tampered with
// and repaired all the time. Every change of a file changes one view, so every
// watcher must hear of every change exactly once.
func measureWatchers(ctx context.Context, c *cluster, _ settings, r *report) error {
	if err := c.prepared(ctx, largeNamespace, largeShape); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t, err := c.newTampering(ctx)
	if err != nil {
		return err
	}
	victims, err := t.victims(ctx, min(watchersVictims, len(t.checkpoints)))
	if err != nil {
		return err
	}
	watching := &watching{want: watchersChanges * watcherCount, heard: make(chan struct{})}
	var listeners sync.WaitGroup
	defer listeners.Wait()
	defer cancel()
	for i := range watcherCount {
		w, err := c.stored.RetainedV1alpha1().RetainedCheckpoints(largeNamespace).Watch(ctx, metav1.ListOptions{ResourceVersion: t.version})
		if err != nil {
			return fmt.Errorf("opening watch %d: %w", i, err)
		}
		arrivals := timed(ctx, w)
		listeners.Go(func() { watching.listen(i, arrivals) })
	}
	listeners.Go(func() { watching.listenRaw(t.maps) })
	listeners.Go(func() {
		for range t.views { // nobody else reads it here
		}
	})
	say("  %d watchers, %d changes a second", watcherCount, changesPerSecond)
	if err := c.changeAll(ctx, victims, watchersChanges); err != nil {
		return err
	}
	select {
	case <-watching.heard:
	case <-time.After(arriveLimit):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return watching.report(victims, r)
}

// victims are checkpoints with the first map of each.
func (t *tampering) victims(ctx context.Context, count int) ([]*victim, error) {
	var found []*victim
	for i := range count {
		object, entries, err := t.mapOf(ctx, &t.checkpoints[i])
		if err != nil {
			return nil, err
		}
		found = append(found, &victim{checkpoint: t.checkpoints[i].Name, object: object, entries: entries})
	}
	return found, nil
}

// flip tampers with the file of a victim, or repairs it.
func (c *cluster) flip(ctx context.Context, v *victim) error {
	entries := []byte(v.entries)
	if !v.tampered {
		entries[len(entries)/2] ^= 1
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"entries": string(entries)}})
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	_, err = c.stored.HapticV1alpha1().HAProxyMapFiles(largeNamespace).Patch(ctx, v.object, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("writing map %s: %w", v.object, err)
	}
	v.tampered = !v.tampered
	return nil
}

// changeAll flips victims in turn at the rate, and repairs what is left.
func (c *cluster) changeAll(ctx context.Context, victims []*victim, changes int) error {
	ticker := time.NewTicker(time.Second / changesPerSecond)
	defer ticker.Stop()
	started := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range changes {
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), group.Wait())
		case <-ticker.C:
		}
		v := victims[i%len(victims)]
		group.Go(func() error { return c.flip(ctx, v) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	say("  %d changes in %.1f s", changes, time.Since(started).Seconds())
	return nil
}

// watching collects when events came: of the files, and of the views at every
// watcher, in the order in which they came for each object.
type watching struct {
	mu       sync.Mutex
	raw      map[string][]time.Time
	seen     [watcherCount]map[string][]time.Time
	versions [watcherCount]map[string]bool
	doubled  int
	ended    int
	count    int
	want     int
	heard    chan struct{}
}

func (w *watching) listenRaw(events <-chan arrival) {
	for e := range events {
		if o, ok := e.Object.(*stored.HAProxyMapFile); ok && e.Type == watch.Modified {
			w.mu.Lock()
			if w.raw == nil {
				w.raw = map[string][]time.Time{}
			}
			w.raw[o.Name] = append(w.raw[o.Name], e.at)
			w.mu.Unlock()
		}
	}
}

func (w *watching) listen(i int, events <-chan arrival) {
	seen, versions := map[string][]time.Time{}, map[string]bool{}
	w.mu.Lock()
	w.seen[i], w.versions[i] = seen, versions
	w.mu.Unlock()
	for e := range events {
		w.mu.Lock()
		o, ok := e.Object.(*views.RetainedCheckpoint)
		switch {
		case !ok:
			w.ended++
		case versions[o.ResourceVersion]:
			w.doubled++
		case e.Type == watch.Modified:
			versions[o.ResourceVersion] = true
			seen[o.Name] = append(seen[o.Name], e.at)
			if w.count++; w.count == w.want {
				close(w.heard)
			}
		}
		w.mu.Unlock()
	}
}

func (w *watching) report(victims []*victim, r *report) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var delays []time.Duration
	lost, changes := 0, 0
	for _, v := range victims {
		raw := w.raw[v.object]
		changes += len(raw)
		for i := range w.seen {
			seen := w.seen[i][v.checkpoint]
			lost += max(0, len(raw)-len(seen))
			for n := range min(len(raw), len(seen)) {
				delays = append(delays, seen[n].Sub(raw[n]))
			}
		}
	}
	if len(delays) == 0 {
		return errors.New("no event reached any watcher")
	}
	say("  %d changes at %d watchers: %d events, %d lost, %d doubled, %d errors; delay after the raw event: median %s, p99 %s, maximum %s",
		changes, watcherCount, w.count, lost, w.doubled, w.ended,
		percentile(delays, 0.5).Round(time.Microsecond), percentile(delays, 0.99).Round(time.Microsecond), percentile(delays, 1).Round(time.Microsecond))
	r.add(target{name: "watchers-200-events-lost", value: float64(lost + w.doubled + w.ended), bound: 0, unit: "", relation: equal})
	return nil
}
