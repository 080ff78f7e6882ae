package apiserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/holdfast-project/holdfast/generated/informers/externalversions"
)

// stateLimit is how soon a streaming list has to say that it is complete.
const stateLimit = time.Second

// event is as much of an event of any form as is looked at.
type event struct {
	Type   string `json:"type"`
	Object struct {
		Kind     string            `json:"kind"`
		Metadata metav1.ObjectMeta `json:"metadata"`
		Rows     []struct {
			Object struct {
				Metadata metav1.ObjectMeta `json:"metadata"`
			} `json:"object"`
		} `json:"rows"`
	} `json:"object"`
}

// of is what the event is about: in a table that is the object of its only row.
func (e *event) of() metav1.ObjectMeta {
	if e.Object.Kind == "Table" && len(e.Object.Rows) == 1 {
		return e.Object.Rows[0].Object.Metadata
	}
	return e.Object.Metadata
}

func (e *event) marked() bool {
	return e.Type == "BOOKMARK" && e.of().Annotations[metav1.InitialEventsAnnotationKey] == "true"
}

// stream opens a watch and returns what reads its next event.
func (s *testServer) stream(path, accept string) (next func() event, stop func()) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	transport, err := restclient.TransportFor(s.config)
	if err != nil {
		s.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Host+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	response, err := transport.RoundTrip(req)
	if err != nil || response.StatusCode != http.StatusOK {
		s.Fatal(path, response, err)
	}
	lines := bufio.NewReader(response.Body)
	next = func() event {
		s.Helper()
		line, err := lines.ReadBytes('\n')
		if err != nil {
			s.Fatalf("the stream ended instead of going on: %v", err)
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			s.Fatalf("%v: %.300s", err, line)
		}
		return e
	}
	return next, func() { cancel(); response.Body.Close() }
}

// TestP3AStreamingListSaysWhenItIsFinished: for any number of objects, in a
// namespace and in all, in every form that clients ask for.
func TestP3AStreamingListSaysWhenItIsFinished(t *testing.T) {
	const all = groupPath + "/retainedcheckpoints"
	forms := map[string]string{
		"objects":  "application/json",
		"tables":   "application/json;as=Table;v=v1;g=meta.k8s.io",
		"metadata": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
	}
	for _, count := range []int{0, 1, 200} {
		s := startServer(t, "127.0.0.1:0")
		for i := range count {
			s.views.Checkpoints.Set(newCheckpoint(fmt.Sprintf("c%03d", i), metav1.ConditionTrue))
		}
		for form, accept := range forms {
			for _, path := range []string{rckpts, all} {
				t.Run(fmt.Sprintf("%d %s at %s", count, form, path), func(t *testing.T) {
					s.T = t
					s.streamsState(path, accept, count)
				})
			}
		}
	}
}

// streamsState expects the objects, one marked bookmark, and then what happens.
func (s *testServer) streamsState(path, accept string, count int) {
	s.Helper()
	began := time.Now()
	next, stop := s.stream(path+"?watch=true&"+streaming, accept)
	defer stop()
	for i := range count {
		if e := next(); e.Type != "ADDED" || e.of().Name != fmt.Sprintf("c%03d", i) {
			s.Fatalf("event %d is %s of %q", i, e.Type, e.of().Name)
		}
	}
	end := next()
	if took := time.Since(began); !end.marked() || took > stateLimit {
		s.Errorf("after %d objects and %s there is %+v, want a marked bookmark within %s", count, took, end, stateLimit)
	}
	if version := end.of().ResourceVersion; version == "" || version == "0" {
		s.Errorf("the bookmark has version %q", version)
	}
	if end.Object.Kind == "Table" && len(end.Object.Metadata.Annotations) > 0 {
		s.Errorf("the table itself is annotated, where a built-in one is not: %v", end.Object.Metadata.Annotations)
	}
	s.views.Checkpoints.Set(newCheckpoint("zz-live", metav1.ConditionTrue))
	defer s.views.Checkpoints.Delete("edge", "zz-live")
	for {
		e := next()
		if e.marked() {
			s.Error("there is a second marked bookmark")
		}
		if e.Type != "BOOKMARK" {
			if e.Type != "ADDED" || e.of().Name != "zz-live" {
				s.Errorf("after the state comes %s of %q", e.Type, e.of().Name)
			}
			return
		}
	}
}

// TestP3WhatCannotBeStreamedIsRefusedAtOnce: with the code that makes clients fall
// back, as a built-in server does.
func TestP3WhatCannotBeStreamedIsRefusedAtOnce(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	for _, query := range []string{
		"?watch=true&sendInitialEvents=true&allowWatchBookmarks=true",
		"?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=Exact&resourceVersion=1",
		"?sendInitialEvents=true",
		"?sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
	} {
		began := time.Now()
		code, _, body := s.get("tester", rckpts+query, "")
		if took := time.Since(began); code != http.StatusUnprocessableEntity || took > stateLimit {
			t.Errorf("%s: %d after %s, want 422: %.200s", query, code, took, body)
		}
	}
}

// TestP3InformersSyncWhateverThereIs: the client that waits for ever if the mark is
// missing is the one that everybody uses.
func TestP3InformersSyncWhateverThereIs(t *testing.T) {
	for _, count := range []int{0, 1, 200} {
		s := startServer(t, "127.0.0.1:0")
		for i := range count {
			s.views.Checkpoints.Set(newCheckpoint(fmt.Sprintf("c%03d", i), metav1.ConditionTrue))
		}
		for _, namespace := range []string{"", "edge"} {
			factory := externalversions.NewSharedInformerFactoryWithOptions(s.client, 0, externalversions.WithNamespace(namespace))
			informer := factory.Retained().V1alpha1().RetainedCheckpoints().Informer()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			factory.StartWithContext(ctx)
			if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				t.Errorf("with %d objects, in namespace %q, the informer never synced", count, namespace)
			}
			if got := len(informer.GetStore().List()); got != count {
				t.Errorf("the informer holds %d objects, want %d", got, count)
			}
			cancel()
			factory.Shutdown()
		}
	}
}

// TestP4bcAWatchBeginsWithWhatThereIsAndMissesNothing: without a version it sends
// the state first; at a list's version exactly what came after the list, also what
// came before the watch was opened.
func TestP4bcAWatchBeginsWithWhatThereIsAndMissesNothing(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	names := []string{"a", "b", "c"}
	for _, name := range names {
		s.views.Checkpoints.Set(newCheckpoint(name, metav1.ConditionTrue))
	}
	next, stop := s.stream(rckpts+"?watch=true", "application/json")
	defer stop()
	for _, name := range names {
		if e := next(); e.Type != "ADDED" || e.of().Name != name {
			t.Errorf("a watch without version sends %s of %q, want ADDED of %q", e.Type, e.of().Name, name)
		}
	}

	list, err := s.client.RetainedV1alpha1().RetainedCheckpoints("edge").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.views.Checkpoints.Set(newCheckpoint("b", metav1.ConditionFalse))
	_, _, body := s.get("tester", rckpts+"?watch=true&timeoutSeconds=1&resourceVersion="+list.ResourceVersion, "")
	lines := strings.Split(strings.TrimSpace(body), "\n")
	if len(lines) != 1 {
		t.Fatalf("a watch at the list's version sends %d events, want the one change:\n%s", len(lines), body)
	}
	mustContain(t, lines[0], `"type":"MODIFIED"`, `"name":"b"`, `"status":"False"`)
}
