package main

import (
	"context"
	"fmt"
	"time"
)

// Bounds of section 13 of the design.
const (
	memoryBoundKiB = 24
	// heapRatioBound allows for what differs with the content though it is not
	// kept: the plans of the smaller configurations have fewer backends.
	heapRatioBound = 1.1
)

// measureMemory measures a process that saw the checkpoints come, and processes
// that started over them. The target must hold for both.
func measureMemory(ctx context.Context, c *cluster, _ settings, r *report) error {
	grown, err := c.grownMemory(ctx)
	if err != nil {
		return err
	}
	if err := c.fill(ctx, smallNamespace, smallShape); err != nil {
		return err
	}
	var after [3]usage
	for i, namespace := range []string{idleNamespace, smallNamespace, largeNamespace} {
		if err := c.restart(ctx, namespace); err != nil {
			return err
		}
		if namespace != idleNamespace {
			if err := c.verified(ctx, namespace); err != nil {
				return err
			}
		}
		if after[i], err = c.settled(ctx, "restarted-"+namespace); err != nil {
			return err
		}
	}
	idle, small, large := after[0], after[1], after[2]
	restarted := c.perCheckpoint(idle.resident, large.resident)
	say("  after a restart: %.1f KiB resident a checkpoint of %d KiB, %.1f KiB of %d KiB; heap alone %.1f KiB and %.1f KiB",
		restarted, largeShape.configurationBytes>>10, c.perCheckpoint(idle.resident, small.resident), smallShape.configurationBytes>>10,
		c.perCheckpoint(idle.heap, large.heap), c.perCheckpoint(idle.heap, small.heap))
	r.add(target{name: "memory-per-checkpoint", value: max(grown, restarted), bound: memoryBoundKiB, unit: "KiB", relation: ceiling})
	// Of the heap, because resident memory is not exact enough for a ratio.
	r.add(target{name: "memory-large-to-small", value: (large.heap - idle.heap) / (small.heap - idle.heap), bound: heapRatioBound, unit: "x", relation: ceiling})
	return nil
}

// grownMemory is the resident memory, in KiB, that one checkpoint adds to a
// process that sees it being written.
func (c *cluster) grownMemory(ctx context.Context) (float64, error) {
	if c.filled[largeNamespace] {
		return 0, fmt.Errorf("namespace %s is full already", largeNamespace)
	}
	if err := c.serve(ctx, largeNamespace); err != nil {
		return 0, err
	}
	before, err := c.settled(ctx, "empty")
	if err != nil {
		return 0, err
	}
	if err := c.prepared(ctx, largeNamespace, largeShape); err != nil {
		return 0, err
	}
	after, err := c.settled(ctx, "grown")
	if err != nil {
		return 0, err
	}
	grown := c.perCheckpoint(before.resident, after.resident)
	say("  as they came: %.1f KiB resident a checkpoint, heap alone %.1f KiB", grown, c.perCheckpoint(before.heap, after.heap))
	return grown, nil
}

func (c *cluster) perCheckpoint(before, after float64) float64 {
	return (after - before) / float64(c.checkpoints) / 1024
}

const (
	settleLimit    = 3 * time.Minute
	settleInterval = time.Second
	// settledAfter is how many readings in a row must show no less memory.
	settledAfter = 10
	// settleStep is what counts as less.
	settleStep = 256 << 10
)

// settled is the memory of a process at rest. What it does by itself within some
// minutes is made to happen now: garbage is collected, and the runtime gives
// back to the system, at its own pace, what it does not plan to use again.
func (c *cluster) settled(ctx context.Context, name string) (usage, error) {
	first, err := c.server.usage(ctx)
	if err != nil {
		return usage{}, err
	}
	if err := c.profile(ctx, "heap?gc=1", name); err != nil {
		return usage{}, err
	}
	best, err := c.server.usage(ctx)
	if err != nil {
		return usage{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	ticker := time.NewTicker(settleInterval)
	defer ticker.Stop()
	for still := 0; still < settledAfter; still++ {
		select {
		case <-ctx.Done():
			return usage{}, fmt.Errorf("memory did not settle within %s: %w", settleLimit, ctx.Err())
		case <-ticker.C:
		}
		now, err := c.server.usage(ctx)
		if err != nil {
			return usage{}, err
		}
		if now.resident < best.resident-settleStep {
			best.resident, still = now.resident, 0
		}
	}
	const mib = 1 << 20
	say("  %s: %.1f MiB resident before it settled, %.1f MiB after, heap %.1f MiB", name, first.resident/mib, best.resident/mib, best.heap/mib)
	return best, nil
}
