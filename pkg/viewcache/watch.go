package viewcache

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/watch"
)

// start is where a watch begins: what it sends first, and the version it goes
// on from.
type start[V any, P View[V]] struct {
	initial []P
	cursor  uint64
	// restarts tells the history that the cursor is a place in.
	restarts int
	// closing asks for the bookmark that ends a streaming list.
	closing bool
	// bookmarks asks for periodic bookmarks.
	bookmarks bool
}

var errClosed = errors.New("the server is shutting down")

// Watch sends what opts ask for until ctx ends, the watcher is stopped, or the
// client reads too slowly.
//
// A version that cannot be resumed is answered by a stream that holds one ERROR
// event, which is what the built-in server does, and spares clients the waits
// that their libraries put before repeating a failed request.
func (c *Cache[V, P]) Watch(ctx context.Context, match Match, opts *metainternalversion.ListOptions) (watch.Interface, error) {
	if err := match.knows(c.known); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, apierrors.NewServiceUnavailable(errClosed.Error())
	}
	begin, err := c.begin(match, opts)
	switch {
	case apierrors.IsBadRequest(err):
		return nil, err
	case err != nil:
		return refuse(err), nil
	}

	ctx, cancel := context.WithCancel(ctx)
	w := &watcher[V, P]{
		cache:  c,
		match:  match,
		start:  begin,
		result: make(chan watch.Event, resultBuffer),
		cancel: cancel,
	}
	c.watchers.Add(1)
	go w.run(ctx)
	return w, nil
}

// begin decides where a watch starts. The caller holds the lock, so that the
// snapshot and the version belong together.
func (c *Cache[V, P]) begin(match Match, opts *metainternalversion.ListOptions) (start[V, P], error) {
	if opts == nil {
		opts = &metainternalversion.ListOptions{}
	}
	begin := start[V, P]{cursor: c.current, restarts: c.restarts, bookmarks: opts.AllowWatchBookmarks}
	unversioned := opts.ResourceVersion == "" || opts.ResourceVersion == "0"

	// The API server sets SendInitialEvents for an unversioned watch of an old
	// client too, so only the permission for bookmarks tells a streaming list.
	sendState := unversioned
	if opts.SendInitialEvents != nil {
		sendState = *opts.SendInitialEvents
		begin.closing = sendState && opts.AllowWatchBookmarks
	}
	if !unversioned {
		version, err := parseVersion(opts.ResourceVersion)
		switch {
		case err != nil:
			return begin, apierrors.NewBadRequest(err.Error())
		case c.opts.Versions.standby:
			return begin, errExpired(version)
		case version > c.current && sendState:
			return begin, errTooLarge(version, c.current)
		case version > c.current, version < c.opts.Versions.base, !sendState && version < c.floor:
			return begin, errExpired(version)
		case !sendState:
			begin.cursor = version
		}
	}
	if sendState {
		begin.initial = c.snapshot(match)
	}
	return begin, nil
}

// refused is a watch that consists of one error.
type refused struct {
	result chan watch.Event
}

func refuse(err error) watch.Interface {
	w := refused{result: make(chan watch.Event, 1)}
	w.result <- errorEvent(err)
	close(w.result)
	return w
}

// ResultChan returns the stream, closed already.
func (r refused) ResultChan() <-chan watch.Event { return r.result }

// Stop has nothing to end.
func (r refused) Stop() {}

// errorEvent holds the Status of an error. Every error of this package has one.
func errorEvent(err error) watch.Event {
	status := err.(apierrors.APIStatus).Status()
	return watch.Event{Type: watch.Error, Object: &status}
}
