package publish

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// request is one call that reached the API, with its outcome.
type request struct {
	Verb, Kind, Name string
	Failed           bool
}

func (r request) writes() bool { return r.Verb != "get" && r.Verb != "list" }

// object is a stored object as JSON.
type object = map[string]any

// fakeAPI checks what the real one checks: resourceVersion and UID, both
// preconditions of deletions, the status subresource apart from the rest, and
// etcd's size limit. Its garbage collector runs at once.
type fakeAPI struct {
	mu       sync.Mutex
	objects  map[objectKey]object
	version  int
	uids     int
	requests []request
	// before may refuse a request, after may lose its reply.
	before, after func(request) error
}

func newFakeAPI() *fakeAPI { return &fakeAPI{objects: map[objectKey]object{}} }

func (a *fakeAPI) clients() Clients {
	return Clients{
		Outputs: &fakeClient[*v1alpha1.HAProxyCfg, *v1alpha1.HAProxyCfgList]{api: a, kind: v1alpha1.KindCfg,
			list: func(items []*v1alpha1.HAProxyCfg) *v1alpha1.HAProxyCfgList {
				return &v1alpha1.HAProxyCfgList{Items: valuesOf(items)}
			}},
		MapFiles: &fakeClient[*v1alpha1.HAProxyMapFile, *v1alpha1.HAProxyMapFileList]{api: a, kind: v1alpha1.KindMapFile,
			list: func(items []*v1alpha1.HAProxyMapFile) *v1alpha1.HAProxyMapFileList {
				return &v1alpha1.HAProxyMapFileList{Items: valuesOf(items)}
			}},
		GeneralFiles: &fakeClient[*v1alpha1.HAProxyGeneralFile, *v1alpha1.HAProxyGeneralFileList]{api: a, kind: v1alpha1.KindGeneralFile,
			list: func(items []*v1alpha1.HAProxyGeneralFile) *v1alpha1.HAProxyGeneralFileList {
				return &v1alpha1.HAProxyGeneralFileList{Items: valuesOf(items)}
			}},
		CRTListFiles: &fakeClient[*v1alpha1.HAProxyCRTListFile, *v1alpha1.HAProxyCRTListFileList]{api: a, kind: v1alpha1.KindCRTListFile,
			list: func(items []*v1alpha1.HAProxyCRTListFile) *v1alpha1.HAProxyCRTListFileList {
				return &v1alpha1.HAProxyCRTListFileList{Items: valuesOf(items)}
			}},
		Secrets: &fakeClient[*corev1.Secret, *corev1.SecretList]{api: a, kind: v1alpha1.KindSecret,
			list: func(items []*corev1.Secret) *corev1.SecretList { return &corev1.SecretList{Items: valuesOf(items)} }},
	}
}

func valuesOf[T any](items []*T) []T {
	values := make([]T, 0, len(items))
	for _, item := range items {
		values = append(values, *item)
	}
	return values
}

func (a *fakeAPI) hooks(before, after func(request) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before, a.after = before, after
}

func (a *fakeAPI) took() []request {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.requests
	a.requests = nil
	return taken
}

// do runs one request: hooks, then the act under the lock, then its record.
func (a *fakeAPI) do(ctx context.Context, r request, act func() (object, error)) (object, error) {
	a.mu.Lock()
	before, after := a.before, a.after
	a.mu.Unlock()
	if before != nil {
		if err := before(r); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	stored, err := act()
	r.Failed = err != nil
	a.requests = append(a.requests, r)
	a.mu.Unlock()
	if err == nil && after != nil {
		if err := after(r); err != nil {
			return nil, err
		}
	}
	return stored, err
}

// put stores an object under the next version, unless nothing changed.
func (a *fakeAPI) put(key objectKey, next object) (object, error) {
	if old := a.objects[key]; old != nil {
		meta(next)["resourceVersion"] = meta(old)["resourceVersion"]
		if reflect.DeepEqual(old, next) {
			return old, nil
		}
	}
	raw, err := json.Marshal(next)
	if err != nil {
		return nil, err
	}
	if len(raw) > 3<<19 {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "etcdserver: request is too large",
		}}
	}
	a.version++
	meta(next)["resourceVersion"] = strconv.Itoa(a.version)
	a.objects[key] = next
	return next, nil
}

func meta(o object) object { return o["metadata"].(object) }

func text(o object, field string) string {
	value, _ := meta(o)[field].(string)
	return value
}

// collectGarbage deletes what a deleted object controlled.
func (a *fakeAPI) collectGarbage(uid string) {
	for key, o := range a.objects {
		owners, _ := meta(o)["ownerReferences"].([]any)
		for _, owner := range owners {
			if owner.(object)["uid"] == uid {
				delete(a.objects, key)
				a.collectGarbage(text(o, "uid"))
			}
		}
	}
}

// edit is a foreign writer's change of a typed object.
func edit[T any](a *fakeAPI, key objectKey, change func(*T)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	typed := new(T)
	mustConvert(a.objects[key], typed)
	change(typed)
	next := object{}
	mustConvert(typed, &next)
	if _, err := a.put(key, next); err != nil {
		panic(err)
	}
}

func read[T any](a *fakeAPI, key objectKey) *T {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.objects[key] == nil {
		return nil
	}
	typed := new(T)
	mustConvert(a.objects[key], typed)
	return typed
}

func (a *fakeAPI) remove(key objectKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.objects, key)
}

// names lists what is stored of a kind.
func (a *fakeAPI) names(kind string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for key := range a.objects {
		if key.kind == kind {
			names = append(names, key.name)
		}
	}
	slices.Sort(names)
	return names
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
