package fakeapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// conflictMessage is what the real server says of a stale version.
const conflictMessage = "the object has been modified; please apply your changes to the latest version and try again"

// inNamespace is the context that the registry's functions read.
func inNamespace(namespace string) context.Context {
	return genericapirequest.WithNamespace(context.Background(), namespace)
}

func (s *Server) create(r *request) (answer, error) {
	if r.Subresource != "" {
		return answer{}, apierrors.NewMethodNotSupported(r.kind.gvr.GroupResource(), r.Verb)
	}
	made, accessor, err := s.decodeBody(r)
	if err != nil {
		return answer{}, err
	}
	s.fillSystemFields(accessor)
	if err := s.track(r, r.kind.empty(), made); err != nil {
		return answer{}, err
	}
	o, err := s.store(r, made, accessor)
	if err != nil {
		return answer{}, err
	}
	return object(http.StatusCreated, o), nil
}

func (s *Server) decodeBody(r *request) (runtime.Object, metav1.Object, error) {
	if r.mediaType != "" && r.mediaType != jsonType {
		return nil, nil, unsupportedMediaType(r)
	}
	decoded, err := r.kind.decode(r.Object)
	if err != nil {
		return nil, nil, err
	}
	accessor, err := meta.Accessor(decoded)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(r.Namespace, accessor); err != nil {
		return nil, nil, err
	}
	return decoded, accessor, nil
}

func unsupportedMediaType(r *request) error {
	message := fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: %s", "application/json, application/yaml, application/vnd.kubernetes.protobuf")
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType,
		Reason: metav1.StatusReasonUnsupportedMediaType, Message: message,
	}}
}

// store is the rest of a creation: names, system fields, rules, uniqueness.
func (s *Server) store(r *request, made runtime.Object, accessor metav1.Object) (*stored, error) {
	r.Name = accessor.GetName()
	if err := rest.BeforeCreate(r.kind.strategy, inNamespace(r.Namespace), made); err != nil {
		return nil, err
	}
	if accessor.GetResourceVersion() != "" && accessor.GetResourceVersion() != "0" {
		return nil, storeRefused("resourceVersion should not be set on objects to be created")
	}
	if existing := s.find(r); existing != nil {
		refused := apierrors.NewAlreadyExists(r.kind.gvr.GroupResource(), r.Name)
		if existing.meta.GetDeletionTimestamp() != nil {
			refused.ErrStatus.Message = "object is being deleted: " + refused.ErrStatus.Message
		}
		return nil, refused
	}
	return s.commit(r, r.kind, made)
}

func (s *Server) fillSystemFields(accessor metav1.Object) {
	accessor.SetCreationTimestamp(s.now())
	accessor.SetDeletionTimestamp(nil)
	accessor.SetDeletionGracePeriodSeconds(nil)
	s.names++
	// Counted, not drawn: a run of a simulation can be repeated.
	accessor.SetUID(types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", s.names>>16, s.names)))
	accessor.SetSelfLink("")
	if accessor.GetName() == "" && accessor.GetGenerateName() != "" {
		base := accessor.GetGenerateName()
		accessor.SetName(base[:min(len(base), 58)] + suffix(s.names))
	}
}

func (s *Server) now() metav1.Time {
	return metav1.NewTime(s.options.Now()).Rfc3339Copy()
}

// suffix spells a number in the five characters of a generated name.
func suffix(n int64) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	var spelled [5]byte
	for i := len(spelled) - 1; i >= 0; i-- {
		spelled[i] = alphabet[n%int64(len(alphabet))]
		n /= int64(len(alphabet))
	}
	return string(spelled[:])
}

func (s *Server) update(r *request) (answer, error) {
	next, accessor, err := s.decodeBody(r)
	if err != nil {
		return answer{}, err
	}
	if err := checkName(r, accessor); err != nil {
		return answer{}, err
	}
	old := s.find(r)
	if old == nil {
		return s.createOnUpdate(r, next, accessor)
	}
	if uid := accessor.GetUID(); uid != "" && uid != old.meta.GetUID() {
		return answer{}, apierrors.NewConflict(r.kind.gvr.GroupResource(), r.Name, fmt.Errorf(
			"StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %v, UID in object meta: %v",
			r.kind.path(r.Namespace, r.Name), uid, old.meta.GetUID()))
	}
	if err := s.track(r, old.object, next); err != nil {
		return answer{}, err
	}
	return s.replace(r, old, next)
}

func checkName(r *request, accessor metav1.Object) error {
	if accessor.GetName() == r.Name {
		return nil
	}
	if accessor.GetName() == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", r.Name))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", accessor.GetName(), r.Name))
}

func (s *Server) createOnUpdate(r *request, next runtime.Object, accessor metav1.Object) (answer, error) {
	if r.Subresource != "" || !r.kind.strategy.AllowCreateOnUpdate(context.Background()) {
		return answer{}, notFound(r)
	}
	if uid := accessor.GetUID(); uid != "" {
		return answer{}, apierrors.NewConflict(r.kind.gvr.GroupResource(), r.Name, fmt.Errorf(
			"StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %v, UID in object meta: ",
			r.kind.path(r.Namespace, r.Name), uid))
	}
	// As on the real server, a version does not keep a Lease from being created.
	accessor.SetResourceVersion("")
	s.fillSystemFields(accessor)
	if err := s.track(r, r.kind.empty(), next); err != nil {
		return answer{}, err
	}
	o, err := s.store(r, next, accessor)
	if err != nil {
		return answer{}, err
	}
	return object(http.StatusCreated, o), nil
}

// replace is the rest of an update or a patch: the version's check, the
// resource's rules, and deletion once the last finalizer is gone.
func (s *Server) replace(r *request, old *stored, next runtime.Object) (answer, error) {
	accessor, err := meta.Accessor(next)
	if err != nil {
		return answer{}, err
	}
	if err := checkVersion(r, accessor, old); err != nil {
		return answer{}, err
	}
	strategy := rest.RESTUpdateStrategy(r.kind.strategy)
	if r.Subresource == "status" {
		strategy = r.kind.statusStrategy
	}
	if err := rest.BeforeUpdate(strategy, inNamespace(r.Namespace), next, old.object); err != nil {
		return answer{}, err
	}
	if deletesDuringUpdate(accessor, old.meta) {
		if _, err := s.discard(r.Client, old); err != nil {
			return answer{}, err
		}
		s.collectAfterDeletion()
		encoded, err := marshal(next)
		return answer{code: http.StatusOK, contentType: jsonType, body: encoded}, err
	}
	unchanged, err := s.sameAs(old, next)
	if err != nil {
		return answer{}, err
	}
	if unchanged {
		return object(http.StatusOK, old), nil
	}
	o, err := s.commit(r, r.kind, next)
	if err != nil {
		return answer{}, err
	}
	return object(http.StatusOK, o), nil
}

func checkVersion(r *request, accessor metav1.Object, old *stored) error {
	version := accessor.GetResourceVersion()
	if version == "" || version == "0" {
		if r.kind.strategy.AllowUnconditionalUpdate(context.Background()) {
			accessor.SetResourceVersion(old.meta.GetResourceVersion())
			return nil
		}
		gvr := r.kind.gvr
		return apierrors.NewInvalid(schema.GroupKind{Group: gvr.Group, Kind: gvr.Resource}, r.Name, field.ErrorList{
			field.Invalid(metadataPath.Child("resourceVersion"), uint64(0), "must be specified for an update"),
		})
	}
	if _, err := strconv.ParseUint(version, 10, 64); err != nil {
		return storeRefused(err.Error())
	}
	if version != old.meta.GetResourceVersion() {
		return apierrors.NewConflict(r.kind.gvr.GroupResource(), r.Name, errors.New(conflictMessage))
	}
	return nil
}

// deletesDuringUpdate tells whether an update removes the last finalizer of an
// object that is being deleted.
func deletesDuringUpdate(next, old metav1.Object) bool {
	if len(next.GetFinalizers()) > 0 || old.GetDeletionTimestamp() == nil {
		return false
	}
	period := old.GetDeletionGracePeriodSeconds()
	return period == nil || *period == 0
}

// sameAs tells whether storing next would change nothing: then the real
// server writes nothing, and the version stays. Times in managedFields are no
// change.
func (s *Server) sameAs(old *stored, next runtime.Object) (bool, error) {
	accessor, err := meta.Accessor(next)
	if err != nil {
		return false, err
	}
	fresh, before := accessor.GetManagedFields(), old.meta.GetManagedFields()
	if lease, ok := next.(*coordinationv1.Lease); ok && !lease.Spec.RenewTime.Equal(old.object.(*coordinationv1.Lease).Spec.RenewTime) {
		return false, nil // the commonest write, told apart without encoding it
	}
	if !sameManagers(fresh, before) {
		return false, nil
	}
	accessor.SetManagedFields(before)
	defer accessor.SetManagedFields(fresh)
	encoded, err := marshal(next)
	if err != nil {
		return false, err
	}
	return bytes.Equal(encoded, old.encoded), nil
}

func sameManagers(a, b []metav1.ManagedFieldsEntry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		left, right := a[i], b[i]
		left.Time, right.Time = nil, nil
		if !equality.Semantic.DeepEqual(left, right) {
			return false
		}
	}
	return true
}
