package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// Forms that clients ask for.
const (
	asTable        = "application/json;as=Table;v=v1;g=meta.k8s.io"
	asMetadata     = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	asMetadataList = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	protobuf       = "application/vnd.kubernetes.protobuf"
	future         = "9000000000000000000"
)

// session is one run of the script. Its methods are called from many goroutines
// and so report without ending the test.
type session struct {
	*testing.T
	*subject
	ctx context.Context
	// first is the version of the list before anything was written.
	first string
}

func (s *session) put(name, value string) {
	s.Helper()
	if err := s.write(s.ctx, name, value); err != nil {
		s.Errorf("%s: writing %s: %v", s.name, name, err)
	}
}

func (s *session) delete(name string) {
	s.Helper()
	if err := s.remove(s.ctx, name); err != nil {
		s.Errorf("%s: deleting %s: %v", s.name, name, err)
	}
}

func (s *session) get(path, accept string) answer {
	s.Helper()
	a, err := s.ask(s.ctx, http.MethodGet, path, accept, nil)
	if err != nil {
		s.Errorf("%s: GET %s: %v", s.name, path, err)
	}
	return a
}

// listed is what scripts look at in an answer.
type listed struct {
	Kind     string            `json:"kind"`
	Code     int               `json:"code"`
	Reason   string            `json:"reason"`
	Details  map[string]any    `json:"details"`
	Metadata map[string]any    `json:"metadata"`
	Items    []json.RawMessage `json:"items"`
	Rows     []struct {
		Object json.RawMessage `json:"object"`
	} `json:"rows"`
	ColumnDefinitions []json.RawMessage `json:"columnDefinitions"`
}

type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
}

func (o *object) String() string { return o.Metadata.Name + "=" + o.Metadata.Labels[valueLabel] }

// generic hides what differs between any two resources.
func (s *session) generic(text string) string {
	return strings.NewReplacer(s.kind, "KIND", s.resource, "RESOURCE", strings.Split(s.group, "/")[0], "GROUP").Replace(text)
}

// list describes the answer to a list: what is in it, or the refusal.
func (s *session) list(query string) string { return s.describe(s.get(s.path()+query, "")) }

func (s *session) describe(a answer) string {
	var l listed
	if err := json.Unmarshal(a.body, &l); err != nil {
		return fmt.Sprintf("%d %s", a.code, strings.Split(a.contentType, ";")[0])
	}
	if l.Kind == "Status" {
		return fmt.Sprintf("%d %s", a.code, l.Reason)
	}
	text := fmt.Sprintf("%d %s", a.code, s.generic(l.Kind))
	if l.Items != nil {
		text += " " + names(l.Items)
	}
	if l.Kind == "Table" {
		var objects []json.RawMessage
		for _, row := range l.Rows {
			objects = append(objects, row.Object)
		}
		text += fmt.Sprintf(" columns:%v rows:%d %s", len(l.ColumnDefinitions) > 0, len(l.Rows), names(objects))
	}
	if l.Metadata["continue"] != nil {
		text += " continued"
	}
	if version, ok := l.Metadata["resourceVersion"].(string); !ok || !usable(version) {
		text += " without a version"
	}
	return text
}

func names(items []json.RawMessage) string {
	found := []string{}
	for _, item := range items {
		var o object
		_ = json.Unmarshal(item, &o)
		found = append(found, o.String())
	}
	return fmt.Sprint(found)
}

func usable(version string) bool {
	n, err := strconv.ParseUint(version, 10, 64)
	return err == nil && n > 0
}

// version is that of a list now.
func (s *session) version() string {
	s.Helper()
	var l listed
	if err := json.Unmarshal(s.get(s.path(), "").body, &l); err != nil {
		s.Error(err)
	}
	version, _ := l.Metadata["resourceVersion"].(string)
	return version
}

// watch describes all events of a watch that the server ends after a while.
func (s *session) watch(query, accept string) string {
	s.Helper()
	a := s.get(s.path()+"?watch=true&timeoutSeconds=3&"+query, accept)
	if a.code != http.StatusOK {
		return s.describe(a)
	}
	return s.events(a.body)
}

func (s *session) events(stream []byte) string {
	var found []string
	last := uint64(0)
	for _, line := range bytes.Split(bytes.TrimSpace(stream), []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var e struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			s.Errorf("%s: event %q: %v", s.name, line, err)
			continue
		}
		var o object
		var l listed
		_, _ = json.Unmarshal(e.Object, &o), json.Unmarshal(e.Object, &l)
		text := e.Type
		switch {
		case e.Type == "ERROR":
			text += fmt.Sprintf(" %d %s", l.Code, l.Reason)
		case l.Kind == "Table":
			text += fmt.Sprintf(" Table columns:%v", len(l.ColumnDefinitions) > 0)
			if len(l.Rows) == 1 {
				_ = json.Unmarshal(l.Rows[0].Object, &o)
			}
			fallthrough
		default:
			if e.Type != "BOOKMARK" {
				text += " " + o.String()
			} else if o.Metadata.Annotations["k8s.io/initial-events-end"] == "true" {
				text += " of " + s.generic(o.Kind) + ", the end of the state"
			} else {
				continue // servers send others when they like
			}
		}
		// Objects of a state have versions of their own, in any order.
		if version, _ := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64); e.Type != "ADDED" && e.Type != "ERROR" {
			if version <= last {
				text += " at a version that did not rise"
			}
			last = version
		}
		found = append(found, text)
	}
	return strings.Join(found, "; ")
}

func query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return values.Encode()
}

// streaming asks for a streaming list.
func streaming(more ...string) string {
	return query(append([]string{"sendInitialEvents", "true", "resourceVersionMatch", "NotOlderThan", "allowWatchBookmarks", "true"}, more...)...)
}
