package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// step is one question, with the row of the conformance table it belongs to.
// Steps run in order: what one writes, the next ones find.
type step struct {
	row  int
	name string
	ask  func(s *session) string
}

func script() []step {
	return slices.Concat(listSteps(), watchSteps(), streamSteps(), formSteps(), verbSteps())
}

func listSteps() []step {
	list := func(pairs ...string) func(s *session) string {
		return func(s *session) string { return s.list("?" + query(pairs...)) }
	}
	return []step{
		{1, "a list of nothing", list()},
		{1, "a list is sorted whatever the order of creation", func(s *session) string {
			s.put("c", "1")
			s.put("a", "1")
			s.put("b", "2")
			return s.list("")
		}},
		{2, "by label", list("labelSelector", "value=1")},
		{2, "by a set of labels", list("labelSelector", "value in (2,3)")},
		{2, "by name", list("fieldSelector", "metadata.name=b")},
		{2, "by namespace", list("fieldSelector", "metadata.namespace=elsewhere")},
		{2, "by not having a name", list("fieldSelector", "metadata.name!=b")},
		{2, "by an unknown field", list("fieldSelector", "status.unknown=x")},
		{2, "by a malformed label selector", list("labelSelector", "value in (")},
		{2, "by a malformed field selector", list("fieldSelector", "metadata.name")},
		{2, "in a namespace without objects", func(s *session) string {
			return s.describe(s.get(s.root()+"/namespaces/default-"+"none/"+s.resource, ""))
		}},
		{3, "at version 0", list("resourceVersion", "0")},
		{3, "exactly at version 0", list("resourceVersion", "0", "resourceVersionMatch", "Exact")},
		{3, "at the present version", func(s *session) string { return s.list("?" + query("resourceVersion", s.version())) }},
		{3, "exactly at the present version", func(s *session) string {
			return s.list("?" + query("resourceVersion", s.version(), "resourceVersionMatch", "Exact"))
		}},
		{3, "not older than an earlier version", func(s *session) string {
			earlier := s.version()
			s.put("a", "2")
			return s.list("?" + query("resourceVersion", earlier, "resourceVersionMatch", "NotOlderThan"))
		}},
		{3, "exactly at an earlier version", func(s *session) string {
			earlier := s.version()
			s.put("a", "1")
			return s.list("?" + query("resourceVersion", earlier, "resourceVersionMatch", "Exact"))
		}},
		{3, "at version 1, which is of nobody", list("resourceVersion", "1")},
		{3, "exactly at version 1", list("resourceVersion", "1", "resourceVersionMatch", "Exact")},
		{3, "at a version from the future", list("resourceVersion", future)},
		{3, "at a malformed version", list("resourceVersion", "abc")},
		{3, "a match without a version", list("resourceVersionMatch", "NotOlderThan")},
		{3, "initial events on a list", list("sendInitialEvents", "true")},
		{3, "a limit", list("limit", "1")},
		{3, "a malformed continue token", list("continue", "abc")},
	}
}

func watchSteps() []step {
	return []step{
		{4, "a watch from a list's version", func(s *session) string {
			version := s.version()
			s.put("a", "3")
			s.delete("b")
			s.put("d", "1")
			s.put("a", "1")
			return s.watch(query("resourceVersion", version), "")
		}},
		{4, "a watch from the version of an event", func(s *session) string {
			version := s.version()
			s.put("d", "2")
			s.put("d", "1")
			first := s.get(s.path()+"?watch=true&timeoutSeconds=3&resourceVersion="+version, "").body
			var e struct{ Object object }
			if err := json.Unmarshal([]byte(strings.Split(string(first), "\n")[0]), &e); err != nil {
				s.Fatal(err)
			}
			return s.watch(query("resourceVersion", e.Object.Metadata.ResourceVersion), "")
		}},
		{5, "a watch from version 1, which is of nobody", func(s *session) string { return s.watch(query("resourceVersion", "1"), "") }},
		{5, "a watch from a version from the future", func(s *session) string { return s.watch(query("resourceVersion", future), "") }},
		{5, "a watch from a malformed version", func(s *session) string { return s.watch(query("resourceVersion", "abc"), "") }},
		{8, "a legacy watch without version", func(s *session) string { return s.watch("", "") }},
		{8, "a legacy watch from version 0", func(s *session) string { return s.watch(query("resourceVersion", "0"), "") }},
		{8, "a watch by name without version", func(s *session) string { return s.watch(query("fieldSelector", "metadata.name=a"), "") }},
		{8, "the deprecated path for watches", func(s *session) string {
			path := strings.Replace(s.path(), s.root(), s.root()+"/watch", 1)
			return s.events(s.get(path+"?timeoutSeconds=3", "").body)
		}},
		{8, "the deprecated path for a watch of one", func(s *session) string {
			path := strings.Replace(s.path(), s.root(), s.root()+"/watch", 1)
			return s.events(s.get(path+"/a?timeoutSeconds=3", "").body)
		}},
		{9, "objects that start and stop to match", func(s *session) string {
			version := s.version()
			s.put("a", "2")
			s.put("c", "1") // equal: no event
			s.put("e", "2")
			s.put("e", "1")
			s.delete("e")
			s.put("a", "1")
			return s.watch(query("resourceVersion", version, "labelSelector", "value=1"), "")
		}},
		{9, "a watch by an unknown field", func(s *session) string { return s.watch(query("fieldSelector", "status.unknown=x"), "") }},
	}
}

func streamSteps() []step {
	stream := func(more ...string) func(s *session) string {
		return func(s *session) string { return s.watch(streaming(more...), "") }
	}
	return []step{
		{6, "a streaming list", stream()},
		{6, "a streaming list of nothing", stream("labelSelector", "value=none")},
		{6, "a streaming list of one name", stream("fieldSelector", "metadata.name=a")},
		{6, "a streaming list not older than the present version", func(s *session) string {
			return s.watch(streaming("resourceVersion", s.version()), "")
		}},
		{6, "a streaming list as table", func(s *session) string { return s.watch(streaming(), asTable) }},
		{6, "a streaming list of metadata", func(s *session) string { return s.watch(streaming(), asMetadata) }},
		{6, "initial events without bookmarks", func(s *session) string {
			return s.watch(query("sendInitialEvents", "true", "resourceVersionMatch", "NotOlderThan"), "")
		}},
		{6, "initial events without a match", func(s *session) string { return s.watch(query("sendInitialEvents", "true"), "") }},
		{6, "no initial events, said so", func(s *session) string {
			return s.watch(query("sendInitialEvents", "false", "resourceVersionMatch", "NotOlderThan"), "")
		}},
		{6, "a match without initial events", func(s *session) string { return s.watch(query("resourceVersionMatch", "NotOlderThan"), "") }},
		{7, "a streaming list from the future", stream("resourceVersion", future)},
		{7, "a streaming list at a malformed version", stream("resourceVersion", "abc")},
	}
}

func formSteps() []step {
	as := func(path, accept string) func(s *session) string {
		return func(s *session) string { return s.describe(s.get(s.path()+path, accept)) }
	}
	steps := []step{
		{13, "a list as table", as("", asTable)},
		{13, "a table without objects", as("?includeObject=None", asTable)},
		{13, "a table with whole objects", as("?includeObject=Object", asTable)},
		{13, "an empty table", as("?labelSelector=value%3Dnone", asTable)},
		{13, "one object as table", as("/a", asTable)},
		{13, "a table of the older version", as("", strings.Replace(asTable, "v=v1", "v=v1beta1", 1))},
		{13, "a table of a version that is none", as("", strings.Replace(asTable, "v=v1", "v=v9", 1))},
		{13, "metadata of one", as("/a", asMetadata)},
		{13, "metadata of a list", as("", asMetadataList)},
		{13, "one object as a list", as("/a", asMetadataList)},
	}
	for _, accept := range []string{
		"", "*/*", "application/json", "application/yaml", protobuf, protobuf + ",application/json", "application/json;q=0.5,application/yaml",
		protobuf + ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json", asTable + ",application/json", "nonsense", "text/html",
	} {
		for _, path := range []string{"", "/a"} {
			steps = append(steps, step{14, fmt.Sprintf("GET ITEMS%s with Accept %q", path, accept), func(s *session) string {
				a := s.get(s.path()+path, accept)
				return fmt.Sprintf("%d %s", a.code, strings.Split(a.contentType, ";")[0])
			}})
		}
	}
	return steps
}

func verbSteps() []step {
	ask := func(method, path, body string) func(s *session) string {
		return func(s *session) string {
			a, err := s.ask(s.ctx, method, s.path()+path, "", []byte(body))
			if err != nil {
				s.Fatal(err)
			}
			return s.describe(a)
		}
	}
	return []step{
		{18, "get", ask(http.MethodGet, "/a", "")},
		{18, "get at version 0", ask(http.MethodGet, "/a?resourceVersion=0", "")},
		{18, "get at a version from the future", ask(http.MethodGet, "/a?resourceVersion="+future, "")},
		{18, "get at a malformed version", ask(http.MethodGet, "/a?resourceVersion=abc", "")},
		{18, "get with watch is a get", ask(http.MethodGet, "/a?watch=1", "")},
		{18, "get of nothing, with what the error is about", func(s *session) string {
			a := s.get(s.path()+"/none", "")
			var l listed
			if err := json.Unmarshal(a.body, &l); err != nil {
				s.Fatal(err)
			}
			return s.generic(fmt.Sprintf("%d %s %v", a.code, l.Reason, l.Details))
		}},
		{18, "get of a subresource that is none", ask(http.MethodGet, "/a/none", "")},
		{18, "create", ask(http.MethodPost, "", "{}")},
		{18, "replace", ask(http.MethodPut, "/none", "{}")},
		{18, "patch", ask(http.MethodPatch, "/none", "{}")},
		{18, "delete", ask(http.MethodDelete, "/none", "")},
		{18, "delete all that match nothing", ask(http.MethodDelete, "?labelSelector=value%3Dnone", "")},
		{18, "verbs in discovery", func(s *session) string {
			var found struct {
				Resources []struct {
					Name, Kind string
					Namespaced bool
					Verbs      []string
				}
			}
			if err := json.Unmarshal(s.get(s.root(), "").body, &found); err != nil {
				s.Fatal(err)
			}
			for _, r := range found.Resources {
				if r.Name == s.resource {
					return s.generic(fmt.Sprintf("%s namespaced:%v %v", r.Kind, r.Namespaced, r.Verbs))
				}
			}
			return "not in discovery"
		}},
	}
}
