package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// step is one question, with the row of the conformance table it belongs to.
type step struct {
	row  int
	name string
	ask  func(s *session) string
	// writes is set where objects change. Such a step runs alone, and what it
	// writes the later ones find; the steps between two of them run together,
	// because a watch is over only when its time is.
	writes bool
}

// writing returns a step that changes objects.
func writing(row int, name string, ask func(s *session) string) step {
	return step{row: row, name: name, ask: ask, writes: true}
}

// reading returns a step that changes nothing.
func reading(row int, name string, ask func(s *session) string) step {
	return step{row: row, name: name, ask: ask}
}

func script() []step {
	return slices.Concat(listSteps(), watchSteps(), streamSteps(), formSteps(), verbSteps())
}

func listSteps() []step {
	list := func(pairs ...string) func(s *session) string {
		return func(s *session) string { return s.list("?" + query(pairs...)) }
	}
	return []step{
		reading(1, "a list of nothing", list()),
		writing(1, "a list is sorted whatever the order of creation", func(s *session) string {
			s.put("c", "1")
			s.put("a", "1")
			s.put("b", "2")
			return s.list("")
		}),
		reading(2, "by label", list("labelSelector", "value=1")),
		reading(2, "by a set of labels", list("labelSelector", "value in (2,3)")),
		reading(2, "by name", list("fieldSelector", "metadata.name=b")),
		reading(2, "by namespace", list("fieldSelector", "metadata.namespace=elsewhere")),
		reading(2, "by not having a name", list("fieldSelector", "metadata.name!=b")),
		reading(2, "by an unknown field", list("fieldSelector", "status.unknown=x")),
		reading(2, "by a malformed label selector", list("labelSelector", "value in (")),
		reading(2, "by a malformed field selector", list("fieldSelector", "metadata.name")),
		reading(2, "in a namespace without objects", func(s *session) string {
			return s.describe(s.get(s.root()+"/namespaces/default-"+"none/"+s.resource, ""))
		}),
		reading(3, "at version 0", list("resourceVersion", "0")),
		reading(3, "exactly at version 0", list("resourceVersion", "0", "resourceVersionMatch", "Exact")),
		reading(3, "at the present version", func(s *session) string { return s.list("?" + query("resourceVersion", s.version())) }),
		reading(3, "exactly at the present version", func(s *session) string {
			return s.list("?" + query("resourceVersion", s.version(), "resourceVersionMatch", "Exact"))
		}),
		writing(3, "not older than an earlier version", func(s *session) string {
			earlier := s.version()
			s.put("a", "2")
			return s.list("?" + query("resourceVersion", earlier, "resourceVersionMatch", "NotOlderThan"))
		}),
		writing(3, "exactly at an earlier version", func(s *session) string {
			earlier := s.version()
			s.put("a", "1")
			return s.list("?" + query("resourceVersion", earlier, "resourceVersionMatch", "Exact"))
		}),
		reading(3, "at version 1, which is of nobody", list("resourceVersion", "1")),
		reading(3, "exactly at the version of the first list", func(s *session) string {
			return s.list("?" + query("resourceVersion", s.first, "resourceVersionMatch", "Exact"))
		}),
		reading(3, "at a version from the future", list("resourceVersion", future)),
		reading(3, "at a malformed version", list("resourceVersion", "abc")),
		reading(3, "a match without a version", list("resourceVersionMatch", "NotOlderThan")),
		reading(3, "initial events on a list", list("sendInitialEvents", "true")),
		reading(3, "a limit", list("limit", "1")),
		reading(3, "a malformed continue token", list("continue", "abc")),
	}
}

func watchSteps() []step {
	return []step{
		writing(4, "a watch from a list's version", func(s *session) string {
			version := s.version()
			s.put("a", "3")
			s.delete("b")
			s.put("d", "1")
			s.put("a", "1")
			return s.watch(query("resourceVersion", version), "")
		}),
		writing(4, "a watch from the version of an event", func(s *session) string {
			version := s.version()
			s.put("d", "2")
			s.put("d", "1")
			first := s.get(s.path()+"?watch=true&timeoutSeconds=3&resourceVersion="+version, "").body
			var e struct{ Object object }
			if err := json.Unmarshal([]byte(strings.Split(string(first), "\n")[0]), &e); err != nil {
				s.Error(err)
			}
			return s.watch(query("resourceVersion", e.Object.Metadata.ResourceVersion), "")
		}),
		// Not from version 1: whether Leases have that in their history is a
		// matter of how kube-apiserver started.
		reading(5, "a watch from the version of the first list", func(s *session) string { return s.watch(query("resourceVersion", s.first), "") }),
		reading(5, "a watch from a version from the future", func(s *session) string { return s.watch(query("resourceVersion", future), "") }),
		reading(5, "a watch from a malformed version", func(s *session) string { return s.watch(query("resourceVersion", "abc"), "") }),
		reading(8, "a legacy watch without version", func(s *session) string { return s.watch("", "") }),
		reading(8, "a legacy watch from version 0", func(s *session) string { return s.watch(query("resourceVersion", "0"), "") }),
		reading(8, "a watch by name without version", func(s *session) string { return s.watch(query("fieldSelector", "metadata.name=a"), "") }),
		reading(8, "the deprecated path for watches", func(s *session) string {
			path := strings.Replace(s.path(), s.root(), s.root()+"/watch", 1)
			return s.events(s.get(path+"?timeoutSeconds=3", "").body)
		}),
		reading(8, "the deprecated path for a watch of one", func(s *session) string {
			path := strings.Replace(s.path(), s.root(), s.root()+"/watch", 1)
			return s.events(s.get(path+"/a?timeoutSeconds=3", "").body)
		}),
		writing(9, "objects that start and stop to match", func(s *session) string {
			version := s.version()
			s.put("a", "2")
			s.put("c", "1") // equal: no event
			s.put("e", "2")
			s.put("e", "1")
			s.delete("e")
			s.put("a", "1")
			return s.watch(query("resourceVersion", version, "labelSelector", "value=1"), "")
		}),
		reading(9, "a watch by an unknown field", func(s *session) string { return s.watch(query("fieldSelector", "status.unknown=x"), "") }),
	}
}

func streamSteps() []step {
	stream := func(more ...string) func(s *session) string {
		return func(s *session) string { return s.watch(streaming(more...), "") }
	}
	return []step{
		reading(6, "a streaming list", stream()),
		reading(6, "a streaming list of nothing", stream("labelSelector", "value=none")),
		reading(6, "a streaming list of one name", stream("fieldSelector", "metadata.name=a")),
		reading(6, "a streaming list not older than the present version", func(s *session) string {
			return s.watch(streaming("resourceVersion", s.version()), "")
		}),
		reading(6, "a streaming list as table", func(s *session) string { return s.watch(streaming(), asTable) }),
		reading(6, "a streaming list of metadata", func(s *session) string { return s.watch(streaming(), asMetadata) }),
		reading(6, "initial events without bookmarks", func(s *session) string {
			return s.watch(query("sendInitialEvents", "true", "resourceVersionMatch", "NotOlderThan"), "")
		}),
		reading(6, "initial events without a match", func(s *session) string { return s.watch(query("sendInitialEvents", "true"), "") }),
		reading(6, "no initial events, said so", func(s *session) string {
			return s.watch(query("sendInitialEvents", "false", "resourceVersionMatch", "NotOlderThan"), "")
		}),
		reading(6, "a match without initial events", func(s *session) string { return s.watch(query("resourceVersionMatch", "NotOlderThan"), "") }),
		reading(7, "a streaming list from the future", stream("resourceVersion", future)),
		reading(7, "a streaming list at a malformed version", stream("resourceVersion", "abc")),
	}
}

func formSteps() []step {
	as := func(path, accept string) func(s *session) string {
		return func(s *session) string { return s.describe(s.get(s.path()+path, accept)) }
	}
	steps := []step{
		reading(13, "a list as table", as("", asTable)),
		reading(13, "a table without objects", as("?includeObject=None", asTable)),
		reading(13, "a table with whole objects", as("?includeObject=Object", asTable)),
		reading(13, "an empty table", as("?labelSelector=value%3Dnone", asTable)),
		reading(13, "one object as table", as("/a", asTable)),
		reading(13, "a table of the older version", as("", strings.Replace(asTable, "v=v1", "v=v1beta1", 1))),
		reading(13, "a table of a version that is none", as("", strings.Replace(asTable, "v=v1", "v=v9", 1))),
		reading(13, "metadata of one", as("/a", asMetadata)),
		reading(13, "metadata of a list", as("", asMetadataList)),
		reading(13, "one object as a list", as("/a", asMetadataList)),
	}
	for _, accept := range []string{
		"", "*/*", "application/json", "application/yaml", protobuf, protobuf + ",application/json", "application/json;q=0.5,application/yaml",
		protobuf + ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
		// What client-go's metadata client asks for.
		protobuf + ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io," + asMetadataList + ",application/json", asTable + ",application/json", "nonsense", "text/html",
	} {
		for _, path := range []string{"", "/a", "?watch=true&timeoutSeconds=1"} {
			steps = append(steps, reading(14, fmt.Sprintf("GET ITEMS%s with Accept %q", path, accept), func(s *session) string {
				a := s.get(s.path()+path, accept)
				return fmt.Sprintf("%d %s", a.code, strings.Split(a.contentType, ";")[0])
			}))
		}
	}
	return steps
}

func verbSteps() []step {
	ask := func(method, path, body string) func(s *session) string {
		return func(s *session) string {
			a, err := s.ask(s.ctx, method, s.path()+path, "", []byte(body))
			if err != nil {
				s.Error(err)
			}
			return s.describe(a)
		}
	}
	return []step{
		reading(18, "get", ask(http.MethodGet, "/a", "")),
		reading(18, "get at version 0", ask(http.MethodGet, "/a?resourceVersion=0", "")),
		reading(18, "get at a version from the future", ask(http.MethodGet, "/a?resourceVersion="+future, "")),
		reading(18, "get at a malformed version", ask(http.MethodGet, "/a?resourceVersion=abc", "")),
		reading(18, "get with watch is a get", ask(http.MethodGet, "/a?watch=1", "")),
		reading(18, "get of nothing, with what the error is about", func(s *session) string {
			a := s.get(s.path()+"/none", "")
			var l listed
			if err := json.Unmarshal(a.body, &l); err != nil {
				s.Error(err)
			}
			return s.generic(fmt.Sprintf("%d %s %v", a.code, l.Reason, l.Details))
		}),
		reading(18, "get of a subresource that is none", ask(http.MethodGet, "/a/none", "")),
		reading(18, "create", ask(http.MethodPost, "", "{}")),
		reading(18, "replace", ask(http.MethodPut, "/none", "{}")),
		reading(18, "patch", ask(http.MethodPatch, "/none", "{}")),
		reading(18, "delete", ask(http.MethodDelete, "/none", "")),
		reading(18, "delete all that match nothing", ask(http.MethodDelete, "?labelSelector=value%3Dnone", "")),
		reading(18, "verbs in discovery", func(s *session) string {
			var found struct {
				Resources []struct {
					Name, Kind string
					Namespaced bool
					Verbs      []string
				}
			}
			if err := json.Unmarshal(s.get(s.root(), "").body, &found); err != nil {
				s.Error(err)
			}
			for _, r := range found.Resources {
				if r.Name == s.resource {
					return s.generic(fmt.Sprintf("%s namespaced:%v %v", r.Kind, r.Namespaced, r.Verbs))
				}
			}
			return "not in discovery"
		}),
	}
}
