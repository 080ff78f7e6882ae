package fakeapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// bookmarkEvery is how often a watch that asks for bookmarks hears of
	// progress elsewhere.
	bookmarkEvery = time.Minute
	// defaultWatchTime ends a watch that names no time. The real server picks
	// 30 to 60 minutes by chance.
	defaultWatchTime = 45 * time.Minute
)

// frame is one event on its way to a watcher.
type frame struct {
	event   watch.EventType
	name    string
	encoded []byte
	version int64
}

// watchStream is the body of a watch's answer. It has no goroutine: whoever
// reads it waits for the next event itself.
type watchStream struct {
	server    *Server
	table     *table
	kind      *kind
	call      Call
	match     selection
	hooks     Hooks
	bookmarks bool
	woken     chan struct{}
	ctx       context.Context
	cancel    context.CancelFunc

	// What follows belongs to the reader.
	pending []frame
	// ends says that nothing follows the pending frames.
	ends         bool
	position     *logged
	from         int64
	sent         int64
	deadline     time.Time
	nextBookmark time.Time
	buffer       bytes.Buffer
}

func (s *Server) watch(ctx context.Context, r *request, hooks Hooks) (answer, error) {
	match, err := selectionOf(r)
	if err != nil {
		return answer{}, err
	}
	if r.Name != "" {
		return answer{}, apierrors.NewMethodNotSupported(r.kind.gvr.GroupResource(), r.Verb)
	}
	options, err := listOptions(r)
	if err != nil {
		return answer{}, err
	}
	w := &watchStream{
		server: s, table: s.tables[r.kind], kind: r.kind, call: r.Call, match: match, hooks: hooks,
		bookmarks: options.AllowWatchBookmarks, woken: make(chan struct{}, 1),
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	lasts := defaultWatchTime
	if options.TimeoutSeconds != nil && *options.TimeoutSeconds > 0 {
		lasts = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	now := time.Now()
	w.deadline, w.nextBookmark = now.Add(lasts), now.Add(bookmarkEvery)
	if err := w.start(options); err != nil {
		w.cancel()
		return answer{}, err
	}
	w.table.watches[w] = struct{}{}
	return answer{code: http.StatusOK, contentType: jsonType, stream: w}, nil
}

func listOptions(r *request) (*internalversion.ListOptions, error) {
	options := &internalversion.ListOptions{
		Watch:                r.Verb == "watch",
		AllowWatchBookmarks:  r.query.Get("allowWatchBookmarks") == "true" || r.query.Get("allowWatchBookmarks") == "1",
		ResourceVersion:      r.query.Get("resourceVersion"),
		ResourceVersionMatch: metav1.ResourceVersionMatch(r.query.Get("resourceVersionMatch")),
	}
	if text := r.query.Get("timeoutSeconds"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		options.TimeoutSeconds = &seconds
	}
	if text := r.query.Get("sendInitialEvents"); text != "" {
		send := text == "true" || text == "1"
		options.SendInitialEvents = &send
	}
	if errs := validation.ValidateListOptions(options, true); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	return options, nil
}

// start decides where the watch begins. The server's lock is held.
func (w *watchStream) start(options *internalversion.ListOptions) error {
	version, now := int64(0), w.server.version
	if options.ResourceVersion != "" {
		var err error
		if version, err = parseVersion(options.ResourceVersion); err != nil {
			return storeRefused(err.Error())
		}
	}
	initial := options.SendInitialEvents
	if initial != nil && *initial {
		if version > now {
			return storage.NewTooLargeResourceVersionError(uint64(version), uint64(now), 1)
		}
		w.sendState()
		if w.bookmarks {
			w.pending = append(w.pending, w.bookmark(now, map[string]string{metav1.InitialEventsAnnotationKey: "true"}))
		}
		return nil
	}
	if version == 0 {
		w.sendState()
		if initial != nil {
			w.pending = nil
		}
		return nil
	}
	w.position, w.from = w.table.oldest, version
	if version < w.table.oldest.version {
		status := statusOf(expired(version, w.table.oldest.version))
		w.pending, w.ends = []frame{{event: watch.Error, encoded: mustEncode(status)}}, true
	}
	return nil
}

// sendState begins with the present objects.
func (w *watchStream) sendState() {
	for _, o := range w.table.sorted(w.match.namespace) {
		if w.match.matches(o) {
			w.pending = append(w.pending, frame{event: watch.Added, name: o.meta.GetName(), encoded: o.encoded})
		}
	}
	w.position, w.from, w.sent = w.table.newest, w.server.version, w.server.version
}

func (w *watchStream) bookmark(version int64, annotations map[string]string) frame {
	return frame{event: watch.Bookmark, encoded: w.kind.bookmark(strconv.FormatInt(version, 10), annotations), version: version}
}

func (w *watchStream) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// Read delivers the next event, waiting for it as long as the watch lasts.
func (w *watchStream) Read(p []byte) (int, error) {
	for w.buffer.Len() == 0 {
		if err := w.ctx.Err(); err != nil {
			return 0, err
		}
		next, err := w.next()
		if err != nil {
			return 0, err
		}
		if next == nil {
			if err := w.wait(); err != nil {
				return 0, err
			}
			continue
		}
		if w.hooks.Event != nil {
			if err := w.hooks.Event(w.ctx, w.call, string(next.event), next.name); err != nil {
				return 0, errors.Join(fmt.Errorf("breaking the watch off: %w", err), w.Close())
			}
			if err := w.ctx.Err(); err != nil {
				return 0, err
			}
		}
		fmt.Fprintf(&w.buffer, `{"type":%q,"object":`, next.event)
		w.buffer.Write(next.encoded)
		w.buffer.WriteString("}\n")
		w.sent = max(w.sent, next.version)
	}
	return w.buffer.Read(p)
}

// next takes the next event, nil if there is none yet.
func (w *watchStream) next() (*frame, error) {
	if len(w.pending) > 0 {
		next := w.pending[0]
		w.pending = w.pending[1:]
		return &next, nil
	}
	if w.ends {
		return nil, io.EOF
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	for w.position.next != nil {
		w.position = w.position.next
		if w.position.new == nil || w.position.version <= w.from {
			continue
		}
		next, err := w.seen(w.position)
		if err != nil || next != nil {
			return next, err
		}
	}
	now := time.Now()
	over := !now.Before(w.deadline)
	if over {
		w.ends = true
	}
	if w.bookmarks && (over || !now.Before(w.nextBookmark)) {
		w.nextBookmark = now.Add(bookmarkEvery)
		if w.server.version > w.sent {
			next := w.bookmark(w.server.version, nil)
			return &next, nil
		}
	}
	if over {
		return nil, io.EOF
	}
	return nil, nil
}

// seen is a change as this watcher sees it, nil if it does not. An object that
// leaves the selection is deleted for it: the old state, the new version.
func (w *watchStream) seen(change *logged) (*frame, error) {
	was, is := w.match.matches(change.old), change.event != watch.Deleted && w.match.matches(change.new)
	next := &frame{name: change.new.meta.GetName(), version: change.version, encoded: change.new.encoded}
	switch {
	case is && was:
		next.event = watch.Modified
	case is:
		next.event = watch.Added
	case was:
		next.event = watch.Deleted
		if change.event != watch.Deleted {
			left, err := w.server.encode(w.kind, change.old.object.DeepCopyObject(), change.version)
			if err != nil {
				return nil, err
			}
			next.encoded = left.encoded
		}
	default:
		return nil, nil
	}
	return next, nil
}

func (w *watchStream) wait() error {
	until := w.deadline
	if w.bookmarks && w.nextBookmark.Before(until) {
		until = w.nextBookmark
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-w.ctx.Done():
		return w.ctx.Err()
	case <-w.woken:
	case <-timer.C:
	}
	return nil
}

// Close ends the watch; a reader that waits returns.
func (w *watchStream) Close() error {
	w.cancel()
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	delete(w.table.watches, w)
	return nil
}
