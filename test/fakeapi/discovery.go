package fakeapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/spec3"
)

// discover answers what is served where and how it is described, and 404 for
// everything else. Only the unaggregated form of the first is known; clients
// fall back to it by themselves.
func (s *Server) discover(r *request) (answer, error) {
	if r.Resource != "" && s.kinds.builtInGroup(r.Group) {
		return answer{}, unknownPath()
	}
	if r.Verb != "get" || r.Resource != "" {
		return notServed(), nil
	}
	path := strings.Trim(r.Name, "/")
	segments := strings.Split(path, "/")
	var body any
	switch {
	case len(segments) == 5 && strings.HasPrefix(path, "openapi/v3/apis/"):
		if document, ok := s.kinds.descriptions[schema.GroupVersion{Group: segments[3], Version: segments[4]}]; ok {
			return answer{code: http.StatusOK, contentType: jsonType, body: document}, nil
		}
	case path == "api":
		body = metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{},
		}
	case path == "apis":
		body = s.kinds.groups()
	case len(segments) == 2 && segments[0] == "api":
		body = s.kinds.resources(schema.GroupVersion{Version: segments[1]})
	case len(segments) == 3 && segments[0] == "apis":
		body = s.kinds.resources(schema.GroupVersion{Group: segments[1], Version: segments[2]})
	}
	if list, ok := body.(*metav1.APIResourceList); body == nil || ok && list == nil {
		return notServed(), nil
	}
	return answer{code: http.StatusOK, contentType: jsonType, body: mustEncode(body)}, nil
}

func (ks *kinds) builtInGroup(group string) bool {
	return slices.ContainsFunc(ks.all, func(k *kind) bool { return k.gvr.Group == group && !k.custom() })
}

func (ks *kinds) groups() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	for _, k := range ks.all {
		version := metav1.GroupVersionForDiscovery{GroupVersion: k.gvk.GroupVersion().String(), Version: k.gvk.Version}
		known := slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == k.gvk.Group })
		if k.gvk.Group == "" || known {
			continue
		}
		list.Groups = append(list.Groups, metav1.APIGroup{
			Name: k.gvk.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		})
	}
	return list
}

func (ks *kinds) resources(gv schema.GroupVersion) *metav1.APIResourceList {
	var list *metav1.APIResourceList
	for _, k := range ks.all {
		if k.gvk.GroupVersion() != gv {
			continue
		}
		if list == nil {
			list = &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
		}
		resource := k.api
		resource.Verbs = metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
		list.APIResources = append(list.APIResources, resource)
		if k.hasStatus {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: k.api.Name + "/status", Namespaced: true, Kind: k.api.Kind, Verbs: metav1.Verbs{"get", "patch", "update"},
			})
		}
	}
	return list
}

// describe makes the documents that the real server makes of the same CRDs.
func describe(custom []*kind) (map[schema.GroupVersion][]byte, error) {
	parts := map[schema.GroupVersion][]*spec3.OpenAPI{}
	for _, k := range custom {
		parts[k.gvk.GroupVersion()] = append(parts[k.gvk.GroupVersion()], k.described)
	}
	documents := map[schema.GroupVersion][]byte{}
	for version, described := range parts {
		merged, err := builder.MergeSpecsV3(described...)
		if err != nil {
			return nil, err
		}
		if documents[version], err = json.Marshal(merged); err != nil {
			return nil, err
		}
	}
	return documents, nil
}
