package recovery

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
	"github.com/holdfast-project/holdfast/pkg/selection"
)

const (
	// maxReads bounds the pods that are asked at once. Each costs a connection,
	// and the pod a pass over its files.
	maxReads = 64
	// maxCheckpoints bounds the checkpoints that are read beside the intended
	// ones. Ours keep at most that many; a list of HAPTIC's has no bound.
	maxCheckpoints = checkpoint.MaxPointers
)

// look asks all pods for their verified state, each within the timeout. since
// tells when a pod was discovered first.
func (r *Recovery) look(ctx context.Context, pods []Pod, since map[string]time.Time) []Sighting {
	sightings := make([]Sighting, len(pods))
	limit := make(chan struct{}, maxReads)
	var wg sync.WaitGroup
	for i, pod := range pods {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			ctx, cancel := context.WithTimeout(ctx, r.settings.Timeout)
			defer cancel()
			state, err := r.parts.Agents.State(ctx, pod)
			s := Sighting{Pod: pod, State: state, Err: err, Starting: r.checks.isApplying(pod.UID)}
			if err != nil {
				s.State = nil
			}
			if began, known := since[pod.UID]; known {
				s.Age = time.Since(began)
			}
			sightings[i] = s
		})
	}
	wg.Wait()
	return sightings
}

// collect reads what is stored: the pointers, what they name, and the pointers
// again.
func (r *Recovery) collect(ctx context.Context, intent fencing.Intent) (s selection.Snapshot, err error) {
	store := r.parts.Store
	ctx, cancel := context.WithTimeout(ctx, 3*r.settings.Timeout)
	defer cancel()
	if s.Before, err = store.Ordinary(ctx); err != nil || selection.Usable(r.settings.Template, s.Before) != nil {
		return s, err
	}
	pointers, _ := record.Ordinary(s.Before)
	if s.Checkpoints, err = r.readCheckpoints(ctx, pointers, intent); err != nil {
		return s, err
	}
	if len(pointers) > 0 {
		if s.Children, err = store.Children(ctx); err != nil {
			return s, err
		}
	}
	s.After, err = store.Ordinary(ctx)
	return s, err
}

// readCheckpoints reads the intended ones, and the first few others.
func (r *Recovery) readCheckpoints(ctx context.Context, pointers []checkpoint.Pointer, intent fencing.Intent) (map[string]*v1alpha1.HAProxyCfg, error) {
	read := map[string]*v1alpha1.HAProxyCfg{}
	for i, pointer := range pointers {
		if i >= maxCheckpoints && pointer.Checksum != intent.Checksum {
			continue
		}
		cfg, err := r.parts.Store.Checkpoint(ctx, pointer.Name)
		if err != nil {
			return nil, err
		}
		read[pointer.Name] = cfg
	}
	return read, nil
}
