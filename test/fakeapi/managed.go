package fakeapi

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

func (s *Server) track(*request, runtime.Object, runtime.Object) error { return nil }

func (s *Server) apply(r *request) (answer, error) {
	return answer{}, apierrors.NewGenericServerResponse(http.StatusNotImplemented, r.Verb, r.kind.gvr.GroupResource(), r.Name,
		"server-side apply is not served yet", 0, true)
}
