package viewcache

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func streamingList(version string) *metainternalversion.ListOptions {
	return &metainternalversion.ListOptions{
		Watch: true, ResourceVersion: version, AllowWatchBookmarks: true,
		SendInitialEvents: yes(), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
}

// watching runs a test body in a bubble that a leaked goroutine would fail.
func watching(t *testing.T, body func(t *testing.T, c *thingCache)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newThings(Options[thing]{HistoryLimit: 8})
		body(t, c)
		c.Close()
	})
}

func mustWatch(t *testing.T, c *thingCache, match Match, opts *metainternalversion.ListOptions) watch.Interface {
	t.Helper()
	w, err := c.Watch(t.Context(), match, opts)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func expect(t *testing.T, w watch.Interface, want ...event) {
	t.Helper()
	got, open := read(w)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if !open {
		t.Error("the watch is over")
	}
}

func TestStreamingListSendsStateThenOneClosingBookmarkThenChanges(t *testing.T) {
	for _, count := range []int{0, 1, 200} {
		t.Run(fmt.Sprintf("%d objects", count), func(t *testing.T) {
			watching(t, func(t *testing.T, c *thingCache) {
				var want []event
				for i := range count {
					name := fmt.Sprintf("x%03d", i)
					c.Set(newThing("a", name, "1"))
					want = append(want, event{Type: watch.Added, Name: name, Value: "1"})
				}
				w := mustWatch(t, c, Match{}, streamingList(""))
				expect(t, w, append(want, event{Type: watch.Bookmark, Closing: true})...)
				c.Set(newThing("a", "later", "1"))
				expect(t, w, event{Type: watch.Added, Name: "later", Value: "1"})
			})
		})
	}
}

func TestClosingBookmarkHasTheVersionOfTheState(t *testing.T) {
	watching(t, func(t *testing.T, c *thingCache) {
		_, version, _ := c.List(Match{}, nil)
		w := mustWatch(t, c, Match{}, streamingList(version))
		synctest.Wait()
		if got := (<-w.ResultChan()).Object.(*thing).ResourceVersion; got != version {
			t.Errorf("version of the closing bookmark = %q, want %q", got, version)
		}
	})
}

func TestLegacyWatchSendsStateWithoutBookmark(t *testing.T) {
	// The API server turns the first form into the second.
	for name, opts := range map[string]*metainternalversion.ListOptions{
		"as the client asked":        {Watch: true},
		"as the API server hands it": {Watch: true, SendInitialEvents: yes(), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan},
		"from any version":           {Watch: true, ResourceVersion: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			watching(t, func(t *testing.T, c *thingCache) {
				c.Set(newThing("a", "x", "1"))
				w := mustWatch(t, c, Match{}, opts)
				expect(t, w, event{Type: watch.Added, Name: "x", Value: "1"})
				c.Delete("a", "x")
				expect(t, w, event{Type: watch.Deleted, Name: "x", Value: "1"})
			})
		})
	}
}

func TestWatchWithoutInitialEventsStartsNow(t *testing.T) {
	watching(t, func(t *testing.T, c *thingCache) {
		c.Set(newThing("a", "x", "1"))
		w := mustWatch(t, c, Match{}, &metainternalversion.ListOptions{SendInitialEvents: no()})
		expect(t, w)
		c.Set(newThing("a", "y", "1"))
		expect(t, w, event{Type: watch.Added, Name: "y", Value: "1"})
	})
}

func TestWatchFromAListSeesExactlyWhatCameAfter(t *testing.T) {
	watching(t, func(t *testing.T, c *thingCache) {
		c.Set(newThing("a", "x", "1"))
		_, version, _ := c.List(Match{}, nil)
		c.Set(newThing("a", "x", "2"))
		c.Delete("a", "x")
		w := mustWatch(t, c, Match{}, &metainternalversion.ListOptions{ResourceVersion: version})
		expect(t, w, event{Type: watch.Modified, Name: "x", Value: "2"}, event{Type: watch.Deleted, Name: "x", Value: "2"})
	})
}

func TestSelectionTurnsChangesIntoComingAndGoing(t *testing.T) {
	watching(t, func(t *testing.T, c *thingCache) {
		w := mustWatch(t, c, matchLabel(t, "a", "value=1"), &metainternalversion.ListOptions{})
		c.Set(newThing("a", "x", "2"))
		c.Set(newThing("b", "x", "1"))
		expect(t, w)
		c.Set(newThing("a", "x", "1"))
		expect(t, w, event{Type: watch.Added, Name: "x", Value: "1"})

		c.Set(newThing("a", "x", "3"))
		synctest.Wait()
		gone := <-w.ResultChan()
		if diff := cmp.Diff(event{Type: watch.Deleted, Name: "x", Value: "1"}, eventOf(gone)); diff != "" {
			t.Errorf("an object that stopped matching (-want +got):\n%s", diff)
		}
		now, _ := c.Get("a", "x")
		if got := gone.Object.(*thing).ResourceVersion; got != now.ResourceVersion {
			t.Errorf("it was deleted at %q, want the version of the change %q", got, now.ResourceVersion)
		}
		c.Delete("a", "x")
		expect(t, w)
	})
}

func TestBookmarksComeToThoseWhoAskedForThem(t *testing.T) {
	watching(t, func(t *testing.T, c *thingCache) {
		with := mustWatch(t, c, matchLabel(t, "", "value=1"), &metainternalversion.ListOptions{AllowWatchBookmarks: true})
		without := mustWatch(t, c, Match{}, &metainternalversion.ListOptions{ResourceVersion: formatVersion(c.current)})
		c.Set(newThing("a", "x", "2"))
		time.Sleep(defaultBookmarkInterval + time.Second)
		synctest.Wait()
		mark := <-with.ResultChan()
		if diff := cmp.Diff(event{Type: watch.Bookmark}, eventOf(mark)); diff != "" {
			t.Errorf("bookmark (-want +got):\n%s", diff)
		}
		if got := mark.Object.(*thing).ResourceVersion; got != formatVersion(c.current) {
			t.Errorf("bookmark at %s, want %s although the change did not match", got, formatVersion(c.current))
		}
		expect(t, without, event{Type: watch.Added, Name: "x", Value: "2"})
	})
}

func TestSlowWatcherIsClosedAndDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := 0
		c := newThings(Options[thing]{HistoryLimit: 8, OnSlowWatcher: func() { slow++ }})
		lagging := mustWatch(t, c, Match{}, &metainternalversion.ListOptions{})
		quick := mustWatch(t, c, Match{}, &metainternalversion.ListOptions{})
		for i := range 10 * resultBuffer {
			c.Set(newThing("a", "x", fmt.Sprint(i)))
			if got, _ := read(quick); len(got) != 1 || got[0].Value != fmt.Sprint(i) {
				t.Fatalf("the quick watcher got %v for change %d", got, i)
			}
		}
		time.Sleep(defaultSendTimeout + time.Second)
		synctest.Wait()
		got, open := read(lagging)
		if open || slow != 1 {
			t.Errorf("after %d events the slow watcher is open: %v, counted %d times", len(got), open, slow)
		}
		c.Close()
	})
}

func TestWatcherThatFellOutOfTheHistoryIsToldToStartOver(t *testing.T) {
	watching(t, func(t *testing.T, c *thingCache) {
		w := mustWatch(t, c, Match{}, &metainternalversion.ListOptions{})
		// The buffer and the event in the watcher's hand, then far more than the history.
		for i := range resultBuffer + 100 {
			c.Set(newThing("a", "x", fmt.Sprint(i)))
			synctest.Wait()
		}
		got, open := read(w)
		last := got[len(got)-1]
		if diff := cmp.Diff(event{Type: watch.Error, Code: 410}, last); diff != "" || open {
			t.Errorf("last event (-want +got), open %v:\n%s", open, diff)
		}
	})
}

func TestStopAndCancelLeaveNoGoroutine(t *testing.T) {
	watching(t, func(t *testing.T, c *thingCache) {
		stopped := mustWatch(t, c, Match{}, streamingList(""))
		stopped.Stop()
		stopped.Stop()
		if _, open := read(stopped); open {
			t.Error("a stopped watch is open")
		}

		ctx, cancel := context.WithCancel(t.Context())
		blocked, err := c.Watch(ctx, Match{}, &metainternalversion.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 * resultBuffer {
			c.Set(newThing("a", "x", fmt.Sprint(i)))
			synctest.Wait()
		}
		cancel()
		if _, open := read(blocked); open {
			t.Error("a watch whose context ended while it was blocked is open")
		}
		refuse(errExpired(1)).Stop()
	})
}

func TestCloseEndsEveryWatch(t *testing.T) {
	watching(t, func(t *testing.T, c *thingCache) {
		w := mustWatch(t, c, Match{}, &metainternalversion.ListOptions{})
		c.Close()
		if _, open := read(w); open {
			t.Error("the watch is open after Close")
		}
		if _, err := c.Watch(t.Context(), Match{}, nil); codeOf(err) != 503 {
			t.Errorf("Watch after Close = %v, want 503", err)
		}
	})
}

func TestForgottenHistoryCannotBeResumed(t *testing.T) {
	watching(t, func(t *testing.T, c *thingCache) {
		_, version, _ := c.List(Match{}, nil)
		c.Set(newThing("a", "x", "1"))
		c.Forget()
		w := mustWatch(t, c, Match{}, &metainternalversion.ListOptions{ResourceVersion: version})
		got, _ := read(w)
		if diff := cmp.Diff([]event{{Type: watch.Error, Code: 410}}, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}
