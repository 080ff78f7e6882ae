package publish

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// maxParallelWrites bounds the writes of one publication that are under way at
// once: many files must not take many round trips one after another, and the
// API server must not get them all at once.
const maxParallelWrites = 8

// inParallel does each of n things. After the first error it starts no other;
// what is under way is waited for, since a write that is broken off may have
// happened all the same.
func inParallel(ctx context.Context, n int, do func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(maxParallelWrites)
	var failed atomic.Bool
	for i := range n {
		group.Go(func() error {
			if failed.Load() {
				return nil
			}
			err := context.Cause(ctx)
			if err == nil {
				err = do(i)
			}
			if err != nil {
				failed.Store(true)
			}
			return err
		})
	}
	return group.Wait()
}
