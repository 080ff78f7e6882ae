package viewcache

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// resultBuffer smooths short pauses of the reader, so that a timer is needed
// only for a reader that really lags.
const resultBuffer = 64

// watcher follows the history with a cursor of its own. It pulls: a change
// costs the writer the same with one watcher or a thousand.
type watcher[V any, P View[V]] struct {
	cache  *Cache[V, P]
	match  Match
	start  start[V, P]
	result chan watch.Event
	cancel context.CancelFunc
}

// ResultChan returns the stream. It is closed when the watch is over.
func (w *watcher[V, P]) ResultChan() <-chan watch.Event { return w.result }

// Stop ends the watch. It may be called any number of times, by anybody.
func (w *watcher[V, P]) Stop() { w.cancel() }

func (w *watcher[V, P]) run(ctx context.Context) {
	defer w.cache.watchers.Done()
	defer close(w.result)
	defer w.cancel()

	if !w.sendState(ctx) {
		return
	}
	// One ticker for the whole watch: a bookmark too many is harmless.
	ticker := time.NewTicker(w.cache.opts.BookmarkInterval)
	defer ticker.Stop()
	cursor := w.start.cursor
	for {
		c := w.cache
		c.mu.RLock()
		steps, known := c.since(cursor, w.start.restarts)
		changed, closed := c.changed, c.closed
		c.mu.RUnlock()
		if closed {
			return
		}
		if !known {
			w.send(ctx, errorEvent(errExpired(cursor)))
			return
		}
		for _, step := range steps {
			if event, relevant := w.event(step); relevant && !w.send(ctx, event) {
				return
			}
			cursor = step.version
		}
		if len(steps) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-ticker.C:
			if w.start.bookmarks && !w.send(ctx, bookmark[V, P](cursor, false)) {
				return
			}
		}
	}
}

// sendState sends what exists, and the bookmark that ends it where asked for.
func (w *watcher[V, P]) sendState(ctx context.Context) bool {
	for _, obj := range w.start.initial {
		if !w.send(ctx, watch.Event{Type: watch.Added, Object: own[V, P](obj)}) {
			return false
		}
	}
	w.start.initial = nil
	return !w.start.closing || w.send(ctx, bookmark[V, P](w.start.cursor, true))
}

// event translates a step into what this watcher's selection sees of it.
func (w *watcher[V, P]) event(step change[V, P]) (watch.Event, bool) {
	had := step.before != nil && w.cache.matches(w.match, step.before)
	has := step.after != nil && w.cache.matches(w.match, step.after)
	switch {
	case has && had:
		return watch.Event{Type: watch.Modified, Object: own[V, P](step.after)}, true
	case has:
		return watch.Event{Type: watch.Added, Object: own[V, P](step.after)}, true
	case had:
		// The state the client knew, under the version at which it ended.
		last := own[V, P](step.before)
		last.SetResourceVersion(formatVersion(step.version))
		return watch.Event{Type: watch.Deleted, Object: last}, true
	}
	return watch.Event{}, false
}

// send waits for the reader, but not for ever: it reports false when the watch
// is over. A client that comes back resumes where it stopped reading.
func (w *watcher[V, P]) send(ctx context.Context, event watch.Event) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case w.result <- event:
		return true
	default:
	}
	patience := time.NewTimer(w.cache.opts.SendTimeout)
	defer patience.Stop()
	select {
	case w.result <- event:
		return true
	case <-ctx.Done():
		return false
	case <-patience.C:
		if w.cache.opts.OnSlowWatcher != nil {
			w.cache.opts.OnSlowWatcher()
		}
		return false
	}
}

func bookmark[V any, P View[V]](version uint64, closing bool) watch.Event {
	obj := P(new(V))
	obj.SetResourceVersion(formatVersion(version))
	if closing {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return watch.Event{Type: watch.Bookmark, Object: obj}
}
