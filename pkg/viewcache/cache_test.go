package viewcache

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

// thing is a view with a value that can be selected by.
type thing = metav1.PartialObjectMetadata

type thingCache = Cache[thing, *thing]

var start2026 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newThings(opts Options[thing]) *thingCache {
	if opts.Versions == nil {
		opts.Versions = NewVersions(start2026)
	}
	opts.Fields = func(obj *thing) fields.Set { return fields.Set{"value": obj.Annotations["value"]} }
	return New[thing](opts)
}

func newThing(namespace, name, value string) *thing {
	return &thing{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels: map[string]string{"value": value}, Annotations: map[string]string{"value": value},
	}}
}

// event is what a test compares of a watch event.
type event struct {
	Type    watch.EventType
	Name    string
	Value   string
	Closing bool
	Code    int32
}

func eventOf(e watch.Event) event {
	switch obj := e.Object.(type) {
	case *metav1.Status:
		return event{Type: e.Type, Code: obj.Code}
	case *thing:
		return event{Type: e.Type, Name: obj.Name, Value: obj.Labels["value"], Closing: obj.Annotations[metav1.InitialEventsAnnotationKey] == "true"}
	}
	panic(fmt.Sprintf("a %T in a watch", e.Object))
}

// read returns what a watch has to say until all is quiet.
func read(w watch.Interface) (events []event, open bool) {
	for {
		synctest.Wait()
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return events, false
			}
			events = append(events, eventOf(e))
		default:
			return events, true
		}
	}
}

func yes() *bool { v := true; return &v }
func no() *bool  { v := false; return &v }

func matchLabel(t *testing.T, namespace, selector string) Match {
	t.Helper()
	parsed, err := labels.Parse(selector)
	if err != nil {
		t.Fatal(err)
	}
	match, err := MatchFor(namespace, &metainternalversion.ListOptions{LabelSelector: parsed})
	if err != nil {
		t.Fatal(err)
	}
	return match
}

func TestListIsSortedAndNeverNil(t *testing.T) {
	c := newThings(Options[thing]{})
	items, version, err := c.List(Match{}, nil)
	if err != nil || items == nil || len(items) != 0 {
		t.Fatalf("List of nothing = %#v, %v, want an empty list that is not nil", items, err)
	}
	if version == "" || version == "0" {
		t.Fatalf("List of nothing has version %q", version)
	}
	for _, obj := range []*thing{newThing("b", "a", "1"), newThing("a", "b", "2"), newThing("a", "a", "3")} {
		c.Set(obj)
	}
	items, _, err = c.List(Match{}, &metainternalversion.ListOptions{Limit: 1, ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range items {
		got = append(got, item.Namespace+"/"+item.Name)
	}
	if diff := cmp.Diff([]string{"a/a", "a/b", "b/a"}, got); diff != "" {
		t.Errorf("List order (-want +got):\n%s", diff)
	}
}

func TestListHonoursSelectors(t *testing.T) {
	c := newThings(Options[thing]{})
	for _, obj := range []*thing{newThing("a", "x", "1"), newThing("a", "y", "2"), newThing("b", "x", "1")} {
		c.Set(obj)
	}
	tests := []struct {
		name      string
		namespace string
		fields    string
		labels    string
		want      []string
		code      int32
	}{
		{name: "everything", want: []string{"a/x", "a/y", "b/x"}},
		{name: "one namespace", namespace: "a", want: []string{"a/x", "a/y"}},
		{name: "a name in one namespace", namespace: "a", fields: "metadata.name=x", want: []string{"a/x"}},
		{name: "a name in all namespaces", fields: "metadata.name=x", want: []string{"a/x", "b/x"}},
		{name: "a name that is not there", namespace: "a", fields: "metadata.name=z"},
		{name: "all but one namespace", fields: "metadata.namespace!=a", want: []string{"b/x"}},
		{name: "a field of ours", fields: "value=2", want: []string{"a/y"}},
		{name: "a name and a field that exclude each other", namespace: "a", fields: "metadata.name=x,value=2"},
		{name: "a label", labels: "value in (1)", want: []string{"a/x", "b/x"}},
		{name: "a field that nothing has is refused", fields: "spec.nodeName=x", code: 400},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			fieldSelector, err := fields.ParseSelector(tc.fields)
			if err != nil {
				t.Fatal(err)
			}
			labelSelector, err := labels.Parse(tc.labels)
			if err != nil {
				t.Fatal(err)
			}
			opts := &metainternalversion.ListOptions{FieldSelector: fieldSelector, LabelSelector: labelSelector}
			match, err := MatchFor(tc.namespace, opts)
			if err != nil {
				t.Fatal(err)
			}
			items, _, err := c.List(match, opts)
			var got []string
			for _, item := range items {
				got = append(got, item.Namespace+"/"+item.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("List (-want +got):\n%s", diff)
			}
			if code := codeOf(err); code != tc.code {
				t.Errorf("List code = %d (%v), want %d", code, err, tc.code)
			}
			if _, err := c.Watch(t.Context(), match, opts); codeOf(err) != tc.code {
				t.Errorf("Watch error = %v, want code %d", err, tc.code)
			}
		})
	}
	c.Close()
}

func codeOf(err error) int32 {
	if status, ok := err.(apierrors.APIStatus); ok {
		return status.Status().Code
	}
	return 0
}

func TestShardedSelectorIsRefused(t *testing.T) {
	if _, err := MatchFor("", &metainternalversion.ListOptions{ShardSelector: "x"}); err == nil {
		t.Error("MatchFor accepted a shard selector, which would be ignored")
	}
}

func TestVersions(t *testing.T) {
	before := newThings(Options[thing]{Versions: NewVersions(start2026)})
	before.Set(newThing("a", "x", "1"))
	_, old, _ := before.List(Match{}, nil)

	c := newThings(Options[thing]{Versions: NewVersions(start2026.Add(time.Millisecond)), HistoryLimit: 4})
	_, first, _ := c.List(Match{}, nil)
	for i := range 20 {
		c.Set(newThing("a", "x", fmt.Sprint(i)))
	}
	_, last, _ := c.List(Match{}, nil)
	future := NewVersions(start2026.Add(time.Hour))

	tests := []struct {
		name      string
		version   string
		match     metav1.ResourceVersionMatch
		initial   *bool
		list      int32
		watch     int32
		streaming bool
	}{
		{name: "the present one", version: last},
		{name: "one that left the history is old enough for a list, and for state with changes after it", version: first, watch: 410},
		{name: "exactly one that left the history", version: first, match: metav1.ResourceVersionMatchExact, list: 410, watch: 410},
		{name: "exactly the present one", version: last, match: metav1.ResourceVersionMatchExact},
		{name: "one from before the start of this process", version: old, list: 410, watch: 410},
		{name: "one from the future", version: formatVersion(future.base), list: 504, watch: 410},
		{name: "a streaming list from the future", version: formatVersion(future.base), initial: yes(), list: 504, watch: 504},
		{name: "a streaming list from the past of this process", version: first, initial: yes()},
		{name: "a streaming list from before the start", version: old, initial: yes(), list: 410, watch: 410},
		{name: "beyond 64 bits", version: "99999999999999999999999", list: 504, watch: 410},
		{name: "no number", version: "abc", list: 400, watch: 400},
		{name: "a leading zero", version: "0" + last, list: 400, watch: 400},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			opts := &metainternalversion.ListOptions{ResourceVersion: tc.version, ResourceVersionMatch: tc.match}
			if _, _, err := c.List(Match{}, opts); codeOf(err) != tc.list {
				t.Errorf("List error = %v, want code %d", err, tc.list)
			}
			opts = &metainternalversion.ListOptions{ResourceVersion: tc.version, SendInitialEvents: tc.initial, AllowWatchBookmarks: true}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w, err := c.Watch(ctx, Match{}, opts)
			if err != nil {
				if codeOf(err) != tc.watch {
					t.Errorf("Watch error = %v, want code %d", err, tc.watch)
				}
				return
			}
			if tc.watch == 0 {
				w.Stop()
				return
			}
			got := eventOf(<-w.ResultChan())
			if diff := cmp.Diff(event{Type: watch.Error, Code: tc.watch}, got); diff != "" {
				t.Errorf("first event (-want +got):\n%s", diff)
			}
			if _, open := <-w.ResultChan(); open {
				t.Error("the watch went on after its error")
			}
		})
	}
	c.Close()
}

func TestTooLargeHasTheShapeThatReflectorsKnow(t *testing.T) {
	err := errTooLarge(2, 1)
	if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) || codeOf(err) != 504 {
		t.Errorf("errTooLarge = %#v", err)
	}
	if !apierrors.IsResourceExpired(errExpired(1)) {
		t.Errorf("errExpired = %#v", errExpired(1))
	}
}

func TestVersionsRiseOverRestarts(t *testing.T) {
	v := NewVersions(start2026)
	for range 3_000_000 {
		v.next()
	}
	// Three million changes in a process that lived for four milliseconds.
	if later := NewVersions(start2026.Add(4 * time.Millisecond)); later.base <= v.last.Load() {
		t.Errorf("a later process starts at %d, the earlier one ended at %d", later.base, v.last.Load())
	}
	if got := formatVersion(v.base); got != "1767225600000000000" {
		t.Errorf("first version = %s", got)
	}
	if NewVersions(time.Date(2553, 1, 1, 0, 0, 0, 0, time.UTC)).base < v.base {
		t.Error("the arithmetic overflows before the year 2554")
	}
}

func TestContinueTokenIsRefused(t *testing.T) {
	_, _, err := newThings(Options[thing]{}).List(Match{}, &metainternalversion.ListOptions{Continue: "x"})
	if codeOf(err) != 400 {
		t.Errorf("List with a continue token = %v, want 400", err)
	}
}

func TestEqualViewChangesNothing(t *testing.T) {
	c := newThings(Options[thing]{})
	c.Set(newThing("a", "x", "1"))
	_, version, _ := c.List(Match{}, nil)
	if c.Set(newThing("a", "x", "1")) {
		t.Error("Set reported a change for an equal view")
	}
	if c.Delete("a", "y") {
		t.Error("Delete reported a change for nothing")
	}
	if _, after, _ := c.List(Match{}, nil); after != version {
		t.Errorf("version went from %s to %s without a change", version, after)
	}
}

func TestHandedOutObjectsAreTheCallersOwn(t *testing.T) {
	c := newThings(Options[thing]{})
	c.Set(newThing("a", "x", "1"))
	got, _ := c.Get("a", "x")
	got.Kind, got.ResourceVersion = "Changed", "1"
	again, _ := c.Get("a", "x")
	if again.Kind != "" || again.ResourceVersion == "1" {
		t.Errorf("a change to a copy reached the cache: %v", again)
	}
}
