package viewcache

import (
	"maps"
	"slices"
)

// Restart goes on with another counter, as a new process would: every view gets
// a version of it, the history is empty, and open watches end as expired. What
// the views say does not change.
//
// Views are numbered anew because a client may compare the versions of one
// object: under its old number a newer view could pass for an older one.
func (c *Cache[V, P]) Restart(versions *Versions) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.Versions = versions
	c.restarts++
	c.history = nil
	// Not the base: a counter that was in use before has issued more than that,
	// and nothing of it can be resumed.
	c.current = versions.last.Load()
	for _, k := range slices.SortedFunc(maps.Keys(c.objects), compareKeys) {
		c.current = versions.next()
		// A copy: clients may still be reading the one before.
		renumbered := own[V, P](c.objects[k])
		renumbered.SetResourceVersion(formatVersion(c.current))
		c.objects[k] = renumbered
	}
	c.floor = c.current
	close(c.changed)
	c.changed = make(chan struct{})
}
