package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// fakeClient is one kind's client.
type fakeClient[T metav1.Object, L any] struct {
	api  *fakeAPI
	kind string
	list func([]T) L
}

func (c *fakeClient[T, L]) resource() schema.GroupResource {
	return schema.GroupResource{Resource: c.kind}
}

func (c *fakeClient[T, L]) typed(o object, err error) (T, error) {
	var typed T
	if err != nil {
		return typed, err
	}
	mustConvert(o, &typed)
	return typed, nil
}

func (c *fakeClient[T, L]) do(ctx context.Context, verb, name string, act func(key objectKey, old object) (object, error)) (object, error) {
	key := objectKey{kind: c.kind, name: name}
	return c.api.do(ctx, request{Verb: verb, Kind: c.kind, Name: name}, func() (object, error) {
		old := c.api.objects[key]
		if old == nil && verb != "create" && verb != "list" {
			return nil, apierrors.NewNotFound(c.resource(), name)
		}
		return act(key, old)
	})
}

func (c *fakeClient[T, L]) Get(ctx context.Context, name string, _ metav1.GetOptions) (T, error) {
	return c.typed(c.do(ctx, "get", name, func(_ objectKey, old object) (object, error) { return old, nil }))
}

func (c *fakeClient[T, L]) List(ctx context.Context, opts metav1.ListOptions) (L, error) {
	var items []T
	_, err := c.do(ctx, "list", "", func(objectKey, object) (object, error) {
		selector, err := labels.Parse(opts.LabelSelector)
		if err != nil {
			return nil, err
		}
		for _, key := range slices.SortedFunc(maps.Keys(c.api.objects), func(a, b objectKey) int {
			return strings.Compare(a.name, b.name)
		}) {
			if key.kind != c.kind {
				continue
			}
			typed, _ := c.typed(c.api.objects[key], nil)
			if selector.Matches(labels.Set(typed.GetLabels())) {
				items = append(items, typed)
			}
		}
		return nil, nil
	})
	return c.list(items), err
}

func (c *fakeClient[T, L]) Create(ctx context.Context, o T, _ metav1.CreateOptions) (T, error) {
	return c.typed(c.do(ctx, "create", o.GetName(), func(key objectKey, old object) (object, error) {
		if old != nil {
			return nil, apierrors.NewAlreadyExists(c.resource(), key.name)
		}
		next := object{}
		mustConvert(o, &next)
		if c.kind != v1alpha1.KindSecret {
			next["status"] = object{}
		}
		c.api.uids++
		meta(next)["uid"] = fmt.Sprintf("uid-%d", c.api.uids)
		meta(next)["generation"] = float64(1)
		return c.api.put(key, next)
	}))
}

func (c *fakeClient[T, L]) replace(old object, o T, part string) (object, error) {
	if o.GetResourceVersion() != text(old, "resourceVersion") || string(o.GetUID()) != text(old, "uid") {
		return nil, apierrors.NewConflict(c.resource(), o.GetName(), errors.New("stale resourceVersion or UID"))
	}
	next, sent := object{}, object{}
	mustConvert(o, &sent)
	if part == "status" {
		mustConvert(old, &next)
		next["status"] = sent["status"]
		return next, nil
	}
	next = sent
	if status, ok := old["status"]; ok {
		next["status"] = status
	}
	if !reflect.DeepEqual(next["spec"], old["spec"]) {
		meta(next)["generation"] = meta(old)["generation"].(float64) + 1
	}
	return next, nil
}

func (c *fakeClient[T, L]) Update(ctx context.Context, o T, _ metav1.UpdateOptions) (T, error) {
	return c.typed(c.do(ctx, "update", o.GetName(), func(key objectKey, old object) (object, error) {
		next, err := c.replace(old, o, "")
		if err != nil {
			return nil, err
		}
		return c.api.put(key, next)
	}))
}

func (c *fakeClient[T, L]) UpdateStatus(ctx context.Context, o T, _ metav1.UpdateOptions) (T, error) {
	return c.typed(c.do(ctx, "status", o.GetName(), func(key objectKey, old object) (object, error) {
		next, err := c.replace(old, o, "status")
		if err != nil {
			return nil, err
		}
		return c.api.put(key, next)
	}))
}

func (c *fakeClient[T, L]) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	_, err := c.do(ctx, "delete", name, func(key objectKey, old object) (object, error) {
		p := opts.Preconditions
		if p == nil || p.UID == nil || p.ResourceVersion == nil {
			return nil, apierrors.NewBadRequest("deletion without both preconditions")
		}
		if string(*p.UID) != text(old, "uid") || *p.ResourceVersion != text(old, "resourceVersion") {
			return nil, apierrors.NewConflict(c.resource(), name, errors.New("precondition"))
		}
		delete(c.api.objects, key)
		c.api.collectGarbage(text(old, "uid"))
		return nil, nil
	})
	return err
}

// Patch knows server-side apply of per-pod entries, one manager a pod.
func (c *fakeClient[T, L]) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error) {
	return c.typed(c.do(ctx, "apply", name, func(key objectKey, old object) (object, error) {
		if pt != types.ApplyPatchType || opts.FieldManager == "" || len(opts.FieldManager) > 128 || !slices.Equal(subresources, []string{"status"}) {
			return nil, apierrors.NewBadRequest("only applies to status are known")
		}
		sent, next := object{}, object{}
		if err := json.Unmarshal(data, &sent); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if uid := text(sent, "uid"); uid != "" && uid != text(old, "uid") {
			return nil, apierrors.NewConflict(c.resource(), name, errors.New("uid mismatch"))
		}
		mustConvert(old, &next)
		status, _ := next["status"].(object)
		if status == nil {
			status = object{}
		}
		entry := sent["status"].(object)["deployedToPods"].([]any)[0].(object)
		entries, _ := status["deployedToPods"].([]any)
		entries = slices.DeleteFunc(entries, func(e any) bool { return e.(object)["podName"] == entry["podName"] })
		status["deployedToPods"] = append(entries, entry)
		next["status"] = status
		return c.api.put(key, next)
	}))
}
