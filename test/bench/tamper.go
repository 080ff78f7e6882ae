package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	stored "github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

// tamperBoundMillis is of section 13 of the design.
const tamperBoundMillis = 50

// tamperLimit bounds one round.
const tamperLimit = 30 * time.Second

// arrival is an event and when this process had it.
type arrival struct {
	watch.Event
	at time.Time
}

// measureTamper changes one byte of a stored map, and compares when a watcher of
// the maps and a watcher of the views hear of it; then repairs it.
func measureTamper(ctx context.Context, c *cluster, s settings, r *report) error {
	if err := c.prepared(ctx, largeNamespace, largeShape); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t, err := c.newTampering(ctx)
	if err != nil {
		return err
	}
	var tampered, repaired []time.Duration
	p := progress{what: "rounds of tampering", total: s.rounds}
	for round := range s.rounds {
		victim := &t.checkpoints[round*len(t.checkpoints)/s.rounds]
		object, original, err := t.mapOf(ctx, victim)
		if err != nil {
			return err
		}
		changed := []byte(original)
		changed[len(changed)/2] ^= 1
		lag, err := t.change(ctx, victim.Name, object, string(changed), metav1.ConditionFalse)
		if err != nil {
			return fmt.Errorf("round %d, tampering with %s: %w", round, object, err)
		}
		tampered = append(tampered, lag)
		lag, err = t.change(ctx, victim.Name, object, original, metav1.ConditionTrue)
		if err != nil {
			return fmt.Errorf("round %d, repairing %s: %w", round, object, err)
		}
		repaired = append(repaired, lag)
		p.at(round + 1)
	}
	say("  tampering: median %s, p90 %s, p99 %s, maximum %s after the raw event", median(tampered), percentile(tampered, 0.9), percentile(tampered, 0.99), percentile(tampered, 1))
	say("  repairing: median %s, p90 %s, p99 %s, maximum %s after the raw event", median(repaired), percentile(repaired, 0.9), percentile(repaired, 0.99), percentile(repaired, 1))
	r.add(target{name: "tamper-to-view-p99", value: percentile(tampered, 0.99).Seconds() * 1e3, bound: tamperBoundMillis, unit: "ms", relation: ceiling})
	return nil
}

// tampering is the two watches and what they started from.
type tampering struct {
	c           *cluster
	checkpoints []views.RetainedCheckpoint
	// version is that of the list they are from.
	version     string
	maps, views <-chan arrival
}

func (c *cluster) newTampering(ctx context.Context) (*tampering, error) {
	list, err := c.stored.RetainedV1alpha1().RetainedCheckpoints(largeNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the views: %w", err)
	}
	maps, err := c.stored.HapticV1alpha1().HAProxyMapFiles(largeNamespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("listing the maps: %w", err)
	}
	t := &tampering{c: c, checkpoints: list.Items, version: list.ResourceVersion}
	rawWatch, err := c.stored.HapticV1alpha1().HAProxyMapFiles(largeNamespace).
		Watch(ctx, metav1.ListOptions{ResourceVersion: maps.ResourceVersion})
	if err != nil {
		return nil, fmt.Errorf("watching the maps: %w", err)
	}
	viewWatch, err := c.stored.RetainedV1alpha1().RetainedCheckpoints(largeNamespace).
		Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		rawWatch.Stop()
		return nil, fmt.Errorf("watching the views: %w", err)
	}
	t.maps, t.views = timed(ctx, rawWatch), timed(ctx, viewWatch)
	return t, nil
}

// timed notes when events come, whoever reads them when. It ends with ctx or the
// watch, and closes its channel then.
func timed(ctx context.Context, w watch.Interface) <-chan arrival {
	out := make(chan arrival, 64)
	go func() {
		defer close(out)
		defer w.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case event, open := <-w.ResultChan():
				if !open {
					return
				}
				select {
				case out <- arrival{event, time.Now()}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}

// mapOf is the object that stores the first map of a checkpoint, and its content.
func (t *tampering) mapOf(ctx context.Context, v *views.RetainedCheckpoint) (name, content string, err error) {
	for i := range v.Status.Artifacts {
		a := &v.Status.Artifacts[i]
		if a.Object == nil || a.Object.Kind != stored.KindMapFile {
			continue
		}
		object, err := t.c.stored.HapticV1alpha1().HAProxyMapFiles(largeNamespace).Get(ctx, a.Object.Name, metav1.GetOptions{})
		if err != nil {
			return "", "", fmt.Errorf("reading map %s: %w", a.Object.Name, err)
		}
		return object.Name, object.Spec.Entries, nil
	}
	return "", "", fmt.Errorf("checkpoint %s has no map", v.Name)
}

// change writes a map and returns by how much the watcher of the views was later
// than the watcher of the maps.
func (t *tampering) change(ctx context.Context, checkpoint, object, entries string, want metav1.ConditionStatus) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, tamperLimit)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"entries": entries}})
	if err != nil {
		return 0, fmt.Errorf("encoding the patch: %w", err)
	}
	_, err = t.c.stored.HapticV1alpha1().HAProxyMapFiles(largeNamespace).
		Patch(ctx, object, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return 0, fmt.Errorf("writing the map: %w", err)
	}
	raw, err := await(ctx, t.maps, func(o *stored.HAProxyMapFile) bool {
		return o.Name == object && o.Spec.Entries == entries
	})
	if err != nil {
		return 0, fmt.Errorf("waiting for the raw event: %w", err)
	}
	seen, err := await(ctx, t.views, func(o *views.RetainedCheckpoint) bool {
		return o.Name == checkpoint && meta.IsStatusConditionPresentAndEqual(o.Status.Conditions, views.ConditionVerified, want)
	})
	if err != nil {
		return 0, fmt.Errorf("waiting for the view: %w", err)
	}
	return seen.Sub(raw), nil
}

var errWatchEnded = errors.New("the watch ended")

// await skips events until one matches, and tells when that came.
func await[O any](ctx context.Context, events <-chan arrival, matches func(O) bool) (time.Time, error) {
	for {
		select {
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case event, open := <-events:
			if !open {
				return time.Time{}, errWatchEnded
			}
			if event.Type == watch.Error {
				return time.Time{}, fmt.Errorf("%w: %v", errWatchEnded, event.Object)
			}
			if object, ok := any(event.Object).(O); ok && matches(object) {
				return event.at, nil
			}
		}
	}
}
