package fakeapi

import (
	"encoding/json"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apiserver/pkg/registry/rest"
)

// What kinds of patches each kind of resource takes, as messages spell it.
const (
	customPatches  = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
	builtInPatches = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml"
)

func (s *Server) patch(r *request) (answer, error) {
	if types.PatchType(r.mediaType) == types.ApplyYAMLPatchType {
		return s.apply(r)
	}
	old := s.find(r)
	if old == nil {
		return answer{}, notFound(r)
	}
	patched, err := patchedBytes(r, old)
	if err != nil {
		return answer{}, err
	}
	next, err := r.kind.decode(patched)
	if err != nil {
		return answer{}, err
	}
	accessor, err := meta.Accessor(next)
	if err != nil {
		return answer{}, err
	}
	if err := checkName(r, accessor); err != nil {
		return answer{}, err
	}
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(r.Namespace, accessor); err != nil {
		return answer{}, err
	}
	if err := s.track(r, old.object, next); err != nil {
		return answer{}, err
	}
	return s.replace(r, old, next)
}

// patchedBytes applies the patch to the stored object's JSON.
func patchedBytes(r *request, old *stored) ([]byte, error) {
	switch types.PatchType(r.mediaType) {
	case types.MergePatchType:
		if !json.Valid(r.Object) {
			return nil, apierrors.NewBadRequest("error decoding patch: invalid JSON")
		}
		patched, err := jsonpatch.MergePatch(old.encoded, r.Object)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return patched, nil
	case types.JSONPatchType:
		patch, err := jsonpatch.DecodePatch(r.Object)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		patched, err := patch.Apply(old.encoded)
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return patched, nil
	case types.StrategicMergePatchType:
		if r.kind.custom() {
			return nil, patchTypeRefused(customPatches)
		}
		patched, err := strategicpatch.StrategicMergePatch(old.encoded, r.Object, r.kind.empty())
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return patched, nil
	}
	if r.kind.custom() {
		return nil, patchTypeRefused(customPatches)
	}
	return nil, patchTypeRefused(builtInPatches)
}

func patchTypeRefused(accepted string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + accepted,
	}}
}
