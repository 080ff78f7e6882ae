package viewcache

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/watch"
)

func versioned(version string) *metainternalversion.ListOptions {
	return &metainternalversion.ListOptions{ResourceVersion: version}
}

func mustList(t *testing.T, c *thingCache) ([]thing, string) {
	t.Helper()
	items, version, err := c.List(Match{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return items, version
}

// expectGone wants a watch that says 410 and nothing else, and is over.
func expectGone(t *testing.T, w watch.Interface) {
	t.Helper()
	want := []event{{Type: watch.Error, Code: http.StatusGone}}
	if got, open := read(w); open || !cmp.Equal(want, got) {
		t.Errorf("got %v, open %t, want 410 and the end", got, open)
	}
}

func TestRestartEndsWatchesAndRenumbersWhatThereIs(t *testing.T) {
	for name, next := range map[string]*Versions{
		"a later stamp":  NewVersions(start2026.Add(time.Hour)),
		"a standby's":    NewStandbyVersions(),
		"a former stamp": NewVersions(start2026.Add(-time.Hour)),
	} {
		t.Run(name, func(t *testing.T) {
			watching(t, func(t *testing.T, c *thingCache) {
				c.Set(newThing("a", "x", "1"))
				c.Set(newThing("a", "y", "1"))
				before, listed := mustList(t, c)
				resumed := mustWatch(t, c, Match{}, versioned(listed))
				streamed := mustWatch(t, c, Match{}, streamingList(""))
				expect(t, streamed,
					event{Type: watch.Added, Name: "x", Value: "1"}, event{Type: watch.Added, Name: "y", Value: "1"},
					event{Type: watch.Bookmark, Closing: true})

				c.Restart(next)

				expectGone(t, resumed)
				expectGone(t, streamed)
				after, version := mustList(t, c)
				for i := range after {
					if after[i].ResourceVersion == before[i].ResourceVersion {
						t.Errorf("%s has kept version %s", after[i].Name, before[i].ResourceVersion)
					}
					after[i].ResourceVersion = before[i].ResourceVersion
				}
				if diff := cmp.Diff(before, after); diff != "" {
					t.Errorf("views (-before +after):\n%s", diff)
				}
				if _, _, err := c.List(Match{}, versioned(listed)); err == nil {
					t.Errorf("a list of version %s is answered after the restart, at %s", listed, version)
				}
				expectGone(t, mustWatch(t, c, Match{}, versioned(listed)))
			})
		})
	}
}

func TestAStandbyGivesStateAndChangesAndResumesNothing(t *testing.T) {
	watching(t, func(t *testing.T, c *thingCache) {
		c.Set(newThing("a", "x", "1"))
		c.Restart(NewStandbyVersions())
		items, version := mustList(t, c)
		if len(items) != 1 || len(version) > 3 {
			t.Errorf("%d items at version %s", len(items), version)
		}
		w := mustWatch(t, c, Match{}, streamingList(""))
		expect(t, w, event{Type: watch.Added, Name: "x", Value: "1"}, event{Type: watch.Bookmark, Closing: true})
		c.Set(newThing("a", "x", "2"))
		expect(t, w, event{Type: watch.Modified, Name: "x", Value: "2"})
		w.Stop()

		_, version = mustList(t, c)
		// Another standby may have issued the very same number.
		expectGone(t, mustWatch(t, c, Match{}, versioned(version)))
		expectGone(t, mustWatch(t, c, Match{}, streamingList(version)))
		if _, _, err := c.List(Match{}, versioned(version)); codeOf(err) != http.StatusGone {
			t.Errorf("a list of version %s: %v, want 410", version, err)
		}
	})
}

// TestACounterThatIsTakenUpAgainResumesNothingOfBefore: the views are gone, and
// with them the history that tells so.
func TestACounterThatIsTakenUpAgainResumesNothingOfBefore(t *testing.T) {
	watching(t, func(t *testing.T, c *thingCache) {
		before := NewVersions(start2026.Add(time.Hour))
		c.Restart(before)
		c.Set(newThing("a", "x", "1"))
		_, listed := mustList(t, c)
		c.Delete("a", "x")
		c.Restart(NewStandbyVersions())
		c.Restart(before)
		c.Set(newThing("a", "y", "1"))
		expectGone(t, mustWatch(t, c, Match{}, versioned(listed)))
	})
}

func TestLatestIsAboveNothingThatWasIssued(t *testing.T) {
	v := NewVersions(start2026)
	if !v.Latest().Equal(start2026) {
		t.Errorf("before the first version: %s", v.Latest())
	}
	v.last.Store(v.base + 3*versionsPerMillisecond + 7)
	next := NewVersions(v.Latest().Add(time.Millisecond))
	if next.next() <= v.last.Load() {
		t.Errorf("a version above %s is not above what was issued", v.Latest())
	}
}
