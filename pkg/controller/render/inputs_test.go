package render

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// server is a discovery that can be changed.
type server struct {
	mu        sync.Mutex
	resources map[string][]metav1.APIResource
}

func (s *server) ServerResourcesForGroupVersionWithContext(_ context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.resources[groupVersion]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, groupVersion)
	}
	return &metav1.APIResourceList{GroupVersion: groupVersion, APIResources: found}, nil
}

func (s *server) set(groupVersion string, resources ...metav1.APIResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources[groupVersion] = resources
}

var anyVerb = metav1.Verbs{"create", "delete", "get", "list", "watch"}

type inputsFixture struct {
	*Inputs
	server *server
	client *dynamicfake.FakeDynamicClient
}

func newInputs(t *testing.T, objects ...runtime.Object) inputsFixture {
	t.Helper()
	f := inputsFixture{
		server: &server{resources: map[string][]metav1.APIResource{}},
		client: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			{Version: "v1", Resource: "configmaps"}:               "ConfigMapList",
			{Group: "x.io", Version: "v1", Resource: "routes"}:    "RouteList",
			{Version: "v1", Resource: "nodes"}:                    "NodeList",
			{Version: "v1", Resource: "secrets"}:                  "SecretList",
			{Group: "x.io", Version: "v1", Resource: "forbidden"}: "ForbiddenList",
		}, objects...),
	}
	f.server.set("v1", metav1.APIResource{Name: "configmaps", Namespaced: true, Verbs: anyVerb},
		metav1.APIResource{Name: "nodes", Verbs: anyVerb})
	f.server.set("x.io/v1", metav1.APIResource{Name: "routes", Namespaced: true, Verbs: anyVerb})
	ctx, cancel := context.WithCancel(context.Background())
	f.Inputs = NewInputs(ctx, InputsConfig{Client: f.client, Discovery: f.server, Namespace: "edge", Changed: func() {}})
	t.Cleanup(func() {
		cancel()
		f.Wait()
	})
	return f
}

// names waits for a snapshot that check accepts.
func (f inputsFixture) await(t *testing.T, check func(Snapshot, error) bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		s, err := f.Snapshot(t.Context())
		if check(s, err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited too long, the last snapshot is %v, %v", s, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func namesOf(s Snapshot, kind string) string {
	v, err := newView(s, nil).kind(kind)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, o := range v.objects {
		out = append(out, o.name.namespace+"/"+o.name.name)
	}
	return strings.Join(out, " ")
}

func TestInputsHoldTheNamespacesThatAreDeclared(t *testing.T) {
	configMap := func(namespace, name string) runtime.Object {
		return object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: "+namespace+", name: "+name+", managedFields: [{manager: m}]}}")
	}
	f := newInputs(t, configMap("edge", "a"), configMap("web", "b"), configMap("other", "c"))
	resource := v1alpha1.WatchedResource{APIVersion: "v1", Resources: "configmaps"}
	for _, tc := range []struct {
		namespaces []string
		want       string
	}{
		{nil, "edge/a"},
		{[]string{"web", "edge", "web"}, "edge/a web/b"},
		{[]string{"*"}, "edge/a other/c web/b"},
	} {
		resource.Namespaces = tc.namespaces
		if err := f.Update(map[string]v1alpha1.WatchedResource{"maps": resource}); err != nil {
			t.Fatal(err)
		}
		f.await(t, func(s Snapshot, err error) bool { return err == nil && namesOf(s, "maps") == tc.want })
	}
	s, err := f.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := s["maps"].Objects[0].GetManagedFields(); len(got) > 0 {
		t.Errorf("managed fields are held: %v", got)
	}
}

func TestInputsNameWhatIsNotThere(t *testing.T) {
	routes := v1alpha1.WatchedResource{APIVersion: "x.io/v1", Resources: "routes"}
	tests := []struct {
		name     string
		resource v1alpha1.WatchedResource
		prepare  func(inputsFixture)
		want     string
	}{
		{"an absent group", v1alpha1.WatchedResource{APIVersion: "gone.io/v1", Resources: "things"}, nil, `watched resource "r" (gone.io/v1 things): discovering it: `},
		{"an absent resource", v1alpha1.WatchedResource{APIVersion: "v1", Resources: "ingresses"}, nil, `watched resource "r" (v1 ingresses): ingresses "v1" not found`},
		{"a forbidden resource", routes, func(f inputsFixture) {
			refuse := func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "x.io", Resource: "routes"}, "", errors.New("no role"))
			}
			f.client.PrependReactor("list", "routes", refuse)
		}, `watched resource "r" (x.io/v1 routes): routes.x.io is forbidden: no role`},
		{"a namespace asked of a kind without", v1alpha1.WatchedResource{APIVersion: "v1", Resources: "nodes", Namespaces: []string{"web"}}, nil,
			`watched resource "r" (v1 nodes): not read completely yet: the kind has no namespaces, but some are asked for`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := newInputs(t)
			if tc.prepare != nil {
				tc.prepare(f)
			}
			if err := f.Update(map[string]v1alpha1.WatchedResource{"r": tc.resource}); err != nil {
				t.Fatal(err)
			}
			f.await(t, func(s Snapshot, err error) bool {
				if err == nil {
					t.Fatalf("Snapshot() = %v without an error", s)
				}
				var e *Error
				return errors.As(err, &e) && e.Reason == ReasonInputUnavailable && strings.HasPrefix(err.Error(), tc.want)
			})
		})
	}
}

func TestObjectsOfAKindThatIsBeingRemovedAreNotMissed(t *testing.T) {
	f := newInputs(t, object(t, "{apiVersion: x.io/v1, kind: Route, metadata: {namespace: edge, name: a}}"))
	if err := f.Update(map[string]v1alpha1.WatchedResource{"r": {APIVersion: "x.io/v1", Resources: "routes"}}); err != nil {
		t.Fatal(err)
	}
	f.await(t, func(s Snapshot, err error) bool { return err == nil && namesOf(s, "r") == "edge/a" })
	// The server takes create away from a kind whose definition is deleted.
	f.server.set("x.io/v1", metav1.APIResource{Name: "routes", Namespaced: true, Verbs: metav1.Verbs{"delete", "get", "list", "watch"}})
	gvr := schema.GroupVersionResource{Group: "x.io", Version: "v1", Resource: "routes"}
	if err := f.client.Resource(gvr).Namespace("edge").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.await(t, func(s Snapshot, err error) bool {
		if err == nil && namesOf(s, "r") == "" {
			t.Fatal("the objects were taken for deleted")
		}
		return err != nil && strings.HasSuffix(err.Error(), "the kind is being removed from the server")
	})
}

func TestADeletedObjectOfALivingKindIsMissed(t *testing.T) {
	f := newInputs(t, object(t, "{apiVersion: x.io/v1, kind: Route, metadata: {namespace: edge, name: a}}"))
	if err := f.Update(map[string]v1alpha1.WatchedResource{"r": {APIVersion: "x.io/v1", Resources: "routes"}}); err != nil {
		t.Fatal(err)
	}
	f.await(t, func(s Snapshot, err error) bool { return err == nil && namesOf(s, "r") == "edge/a" })
	gvr := schema.GroupVersionResource{Group: "x.io", Version: "v1", Resource: "routes"}
	if err := f.client.Resource(gvr).Namespace("edge").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.await(t, func(s Snapshot, err error) bool { return err == nil && namesOf(s, "r") == "" })
}

func TestUpdateRefusesSelectorsNobodyCanHonour(t *testing.T) {
	tests := []struct {
		name     string
		resource v1alpha1.WatchedResource
		want     string
	}{
		{"a broken label selector", v1alpha1.WatchedResource{LabelSelector: "a in ("}, `watched resource "r": labelSelector: `},
		{"a broken field selector", v1alpha1.WatchedResource{FieldSelector: "a"}, `watched resource "r": fieldSelector: `},
		{"all namespaces and another", v1alpha1.WatchedResource{Namespaces: []string{"*", "a"}}, `watched resource "r": "*" stands for all namespaces and must be alone`},
		{"a subresource", v1alpha1.WatchedResource{Resources: "pods/log"}, `watched resource "r": "pods/log" is a subresource`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := newInputs(t).Update(map[string]v1alpha1.WatchedResource{"r": tc.resource})
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("Update() error = %v, want %s…", err, tc.want)
			}
			template := templateOf(head, func(s *v1alpha1.HAProxyTemplateConfigSpec) {
				s.WatchedResources = map[string]v1alpha1.WatchedResource{"r": tc.resource}
			})
			if _, compileErr := Compile(template); compileErr == nil || cmp.Diff(compileErr.Error(), err.Error()) != "" {
				t.Errorf("Compile() error = %v, want %v", compileErr, err)
			}
		})
	}
}
