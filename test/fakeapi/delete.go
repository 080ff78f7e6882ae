package fakeapi

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/json"
)

// Collector is the client's name on the collector's own changes.
const Collector = "garbage-collector"

func (s *Server) remove(r *request) (answer, error) {
	if r.Subresource != "" {
		return answer{}, apierrors.NewMethodNotSupported(r.kind.gvr.GroupResource(), r.Verb)
	}
	options, err := deleteOptions(r)
	if err != nil {
		return answer{}, err
	}
	old := s.find(r)
	if old == nil {
		return answer{}, notFound(r)
	}
	last, gone, err := s.end(r, old, options)
	if err != nil {
		return answer{}, err
	}
	s.collectAfterDeletion()
	if !gone || r.kind.returnsDeleted {
		return object(http.StatusOK, last), nil
	}
	return answer{code: http.StatusOK, contentType: jsonType, body: mustEncode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details:  &metav1.StatusDetails{Name: r.Name, Group: r.kind.gvr.Group, Kind: r.kind.gvr.Resource, UID: old.meta.GetUID()},
	})}, nil
}

// deleteOptions come in the body, or else in the query.
func deleteOptions(r *request) (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	if len(r.Object) > 0 {
		if err := json.UnmarshalCaseSensitivePreserveInts(r.Object, options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	} else {
		values := r.query
		if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&values, options, nil); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	policy := options.PropagationPolicy
	//lint:ignore SA1019 clients may still send it, and it is refused
	if len(options.DryRun) > 0 || options.OrphanDependents != nil || policy != nil && *policy != metav1.DeletePropagationBackground {
		return nil, notImplemented(r, "only plain deletion in the background is served")
	}
	return options, nil
}

// end deletes an object or, if it must wait for its grace period or its
// finalizers, marks it. It returns the last state and whether it is gone.
func (s *Server) end(r *request, old *stored, options *metav1.DeleteOptions) (last *stored, gone bool, err error) {
	next := old.object.DeepCopyObject()
	graceful, pending, err := rest.BeforeDelete(r.kind.strategy, inNamespace(r.Namespace), next, options)
	if err != nil || pending {
		return old, false, err
	}
	accessor, err := meta.Accessor(next)
	if err != nil {
		return nil, false, err
	}
	held := len(accessor.GetFinalizers()) > 0
	if !graceful && !held {
		last, err = s.discard(r.Client, old)
		return last, true, err
	}
	if !graceful {
		s.markDeleting(accessor)
	}
	last = old
	same, err := s.sameAs(old, next)
	if err == nil && !same {
		last, err = s.commit(r, r.kind, next)
	}
	// A grace period of nothing is written down too, before the object goes.
	if err != nil || held || *options.GracePeriodSeconds > 0 {
		return last, false, err
	}
	last, err = s.discard(r.Client, last)
	return last, true, err
}

func (s *Server) markDeleting(accessor metav1.Object) {
	if generation := accessor.GetGeneration(); accessor.GetDeletionTimestamp() == nil && generation > 0 {
		accessor.SetGeneration(generation + 1)
	}
	now, none := s.now(), int64(0)
	if before := accessor.GetDeletionTimestamp(); before == nil || before.After(now.Time) {
		accessor.SetDeletionTimestamp(&now)
	}
	accessor.SetDeletionGracePeriodSeconds(&none)
}

// CollectGarbage deletes, once, every object whose owners are all gone, and
// returns how many it deleted or marked. What becomes garbage by that waits
// for the next call.
func (s *Server) CollectGarbage() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.collect()
}

func (s *Server) collectAfterDeletion() {
	for s.options.AutoGC && s.collect() > 0 {
	}
}

func (s *Server) collect() int {
	living := map[types.UID]bool{}
	for _, t := range s.tables {
		for _, o := range t.objects {
			living[o.meta.GetUID()] = true
		}
	}
	collected := 0
	for _, k := range s.kinds.all {
		for _, o := range s.tables[k].sorted("") {
			if o.meta.GetDeletionTimestamp() != nil || !s.orphaned(o, living) {
				continue
			}
			r := &request{kind: k, Call: Call{Client: Collector, Namespace: o.meta.GetNamespace(), Name: o.meta.GetName()}}
			if _, _, err := s.end(r, o, metav1.NewDeleteOptions(0)); err != nil {
				panic(fmt.Errorf("collecting %s: %w", k.path(r.Namespace, r.Name), err))
			}
			collected++
		}
	}
	return collected
}

// orphaned tells whether an object has owners and all are gone. An owner of a
// kind that is not served cannot be judged, so it counts as living.
func (s *Server) orphaned(o *stored, living map[types.UID]bool) bool {
	owners := o.meta.GetOwnerReferences()
	for _, owner := range owners {
		if living[owner.UID] || !s.serves(owner) {
			return false
		}
	}
	return len(owners) > 0
}

func (s *Server) serves(owner metav1.OwnerReference) bool {
	for _, k := range s.kinds.all {
		group, err := schema.ParseGroupVersion(owner.APIVersion)
		if err == nil && k.gvk.Kind == owner.Kind && k.gvk.Group == group.Group {
			return true
		}
	}
	return false
}
