package publish

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/record"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

const namespace = "ns"

// server is the strict server with a template in it, and the hands of a test.
type server struct {
	*fakeapi.Server
	t     testing.TB
	admin *dynamic.DynamicClient
	// web is the template that is published for; other is somebody else's.
	web, other checkpoint.Template
	once       readOnce
}

// request is one call as a test sees it: a status update has a verb of its own.
type request struct {
	Verb, Kind, Name string
	Failed           bool
	Client           string
}

func (r request) writes() bool { return r.Verb != "get" && r.Verb != "list" }

var resources = map[string]schema.GroupVersionResource{
	v1alpha1.KindTemplateConfig: v1alpha1.SchemeGroupVersion.WithResource("haproxytemplateconfigs"),
	v1alpha1.KindCfg:            v1alpha1.SchemeGroupVersion.WithResource("haproxycfgs"),
	v1alpha1.KindMapFile:        v1alpha1.SchemeGroupVersion.WithResource("haproxymapfiles"),
	v1alpha1.KindGeneralFile:    v1alpha1.SchemeGroupVersion.WithResource("haproxygeneralfiles"),
	v1alpha1.KindCRTListFile:    v1alpha1.SchemeGroupVersion.WithResource("haproxycrtlistfiles"),
	v1alpha1.KindSecret:         {Version: "v1", Resource: "secrets"},
}

func newAPI(t testing.TB) *server {
	t.Helper()
	a := &server{Server: fakeapi.New(fakeapi.Options{AutoGC: true}), t: t}
	var err error
	a.admin, err = dynamic.NewForConfig(a.Config(fakeapi.Admin))
	must(t, err)
	a.web, a.other = a.makeTemplate("web"), a.makeTemplate("other")
	return a
}

func (a *server) makeTemplate(name string) checkpoint.Template {
	template := &v1alpha1.HAProxyTemplateConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.HAProxyTemplateConfigSpec{
			PodSelector:   v1alpha1.PodSelector{MatchLabels: map[string]string{"app": name}},
			HAProxyConfig: v1alpha1.Template{Template: "global\n"},
		},
	}
	template.APIVersion, template.Kind = v1alpha1.SchemeGroupVersion.String(), v1alpha1.KindTemplateConfig
	a.create(template)
	stored := read[v1alpha1.HAProxyTemplateConfig](a, objectKey{v1alpha1.KindTemplateConfig, name})
	return checkpoint.Template{Namespace: namespace, Name: name, UID: string(stored.UID)}
}

// clients are those of a controller of that name.
func (a *server) clients(name string) Clients {
	haptic, err := versioned.NewForConfig(a.Config(name))
	must(a.t, err)
	core, err := kubernetes.NewForConfig(a.Config(name))
	must(a.t, err)
	return NewClients(haptic, core, namespace)
}

func requestOf(c fakeapi.Call) request {
	r := request{Verb: c.Verb, Name: c.Name, Client: c.Client}
	if c.Verb == "update" && c.Subresource == "status" {
		r.Verb = "status"
	}
	if c.Verb == "create" && c.Name == "" {
		var body struct{ Metadata struct{ Name string } }
		mustConvert(json.RawMessage(c.Object), &body)
		r.Name = body.Metadata.Name
	}
	for kind, resource := range resources {
		if resource.Resource == c.Resource {
			r.Kind = kind
		}
	}
	return r
}

// hooks may refuse requests or lose their replies.
func (a *server) hooks(before, after func(request) error) {
	var h fakeapi.Hooks
	if before != nil {
		h.Before = func(_ context.Context, c fakeapi.Call) error { return before(requestOf(c)) }
	}
	if after != nil {
		h.After = func(_ context.Context, c fakeapi.Call, code int) error {
			if code >= 400 {
				return nil
			}
			return after(requestOf(c))
		}
	}
	a.Hooks(h)
}

// took gives what controllers asked since the last call.
func (a *server) took() []request {
	var taken []request
	for _, answered := range a.Requests() {
		if answered.Client != fakeapi.Admin {
			r := requestOf(answered.Call)
			r.Failed = answered.Code >= 400
			taken = append(taken, r)
		}
	}
	a.ResetRequests()
	return taken
}

func (a *server) client(kind string) dynamic.ResourceInterface {
	return a.admin.Resource(resources[kind]).Namespace(namespace)
}

// stored is the object as JSON values, nil if there is none. No hook sees it.
func (a *server) stored(key objectKey) map[string]any {
	for _, o := range a.Objects(resources[key.kind].Resource) {
		if o["metadata"].(map[string]any)["name"] == key.name {
			return o
		}
	}
	return nil
}

func read[T any](a *server, key objectKey) *T {
	o := a.stored(key)
	if o == nil {
		return nil
	}
	typed := new(T)
	mustConvert(o, typed)
	return typed
}

func (a *server) create(object any) {
	a.t.Helper()
	o := &unstructured.Unstructured{}
	mustConvert(object, &o.Object)
	status := o.Object["status"]
	made, err := a.client(o.GetKind()).Create(context.Background(), o, metav1.CreateOptions{})
	must(a.t, err)
	if status != nil {
		made.Object["status"] = status
		_, err = a.client(o.GetKind()).UpdateStatus(context.Background(), made, metav1.UpdateOptions{})
		must(a.t, err)
	}
}

// edit is a foreign writer's change of a typed object, its status included.
func edit[T any](a *server, key objectKey, change func(*T)) {
	a.t.Helper()
	typed := read[T](a, key)
	change(typed)
	next := object{}
	mustConvert(typed, &next)
	a.replace(key, next)
}

type object = map[string]any

// editRaw changes members that no type of ours has.
func editRaw(a *server, key objectKey, change func(object)) {
	a.t.Helper()
	next := object{}
	mustConvert(a.stored(key), &next)
	change(next)
	a.replace(key, next)
}

func (a *server) replace(key objectKey, next object) {
	a.t.Helper()
	status := next["status"]
	stored, err := a.client(key.kind).Update(context.Background(), &unstructured.Unstructured{Object: next}, metav1.UpdateOptions{})
	must(a.t, err)
	if reflect.DeepEqual(status, stored.Object["status"]) {
		return
	}
	stored.Object["status"] = status
	_, err = a.client(key.kind).UpdateStatus(context.Background(), stored, metav1.UpdateOptions{})
	must(a.t, err)
}

func (a *server) remove(key objectKey) {
	a.t.Helper()
	must(a.t, a.client(key.kind).Delete(context.Background(), key.name, metav1.DeleteOptions{}))
}

// names lists what is stored of a kind.
func (a *server) names(kind string) []string {
	var names []string
	for _, o := range a.Objects(resources[kind].Resource) {
		names = append(names, o["metadata"].(map[string]any)["name"].(string))
	}
	slices.Sort(names)
	return names
}

// children reads every stored file, whatever its labels, as no request.
func (a *server) children() []*checkpoint.StoredChild {
	var all []*checkpoint.StoredChild
	each(a, v1alpha1.KindMapFile, &all, record.MapFile)
	each(a, v1alpha1.KindGeneralFile, &all, record.GeneralFile)
	each(a, v1alpha1.KindCRTListFile, &all, record.CRTListFile)
	each(a, v1alpha1.KindSecret, &all, record.Secret)
	return all
}

// readOnce remembers what was made of one version of an object: a reader that
// looks after every step would decode the same thousands of times.
type readOnce struct {
	mu   sync.Mutex
	made map[objectKey]madeOf
}

type madeOf struct {
	version any
	value   any
}

func madeOnce[T, V any](a *server, kind string, o object, translate func(*T) V) V {
	meta := o["metadata"].(object)
	key := objectKey{kind, meta["name"].(string)}
	a.once.mu.Lock()
	defer a.once.mu.Unlock()
	if made, ok := a.once.made[key]; ok && made.version == meta["resourceVersion"] {
		return made.value.(V)
	}
	typed := new(T)
	mustConvert(o, typed)
	if a.once.made == nil {
		a.once.made = map[objectKey]madeOf{}
	}
	made := madeOf{version: meta["resourceVersion"], value: translate(typed)}
	a.once.made[key] = made
	return made.value.(V)
}

func each[T any](a *server, kind string, all *[]*checkpoint.StoredChild, translate func(*T) *checkpoint.StoredChild) {
	for _, o := range a.Objects(resources[kind].Resource) {
		*all = append(*all, madeOnce(a, kind, o, translate))
	}
}

func mustConvert(from, to any) {
	raw, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(raw, to)
	}
	if err != nil {
		panic(err)
	}
}
