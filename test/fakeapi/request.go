package fakeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const jsonType = "application/json"

// request is one call with what the server needs to answer it.
type request struct {
	Call
	kind      *kind
	query     url.Values
	mediaType string
	userAgent string
	accept    string
	// named says that the path names an object.
	named bool
	// tooLarge says that the body was over the limit and was not read whole.
	tooLarge bool
}

func (s *Server) roundTrip(client string, req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	r, err := s.read(client, req)
	if err != nil {
		return nil, err
	}
	hooks := s.hooksFor(client)
	if hooks.Before != nil {
		if err := hooks.Before(ctx, r.Call); err != nil {
			if status := apierrors.APIStatus(nil); errors.As(err, &status) {
				return response(req, failed(err)), nil
			}
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a := s.serve(ctx, r, hooks)
	if hooks.After != nil {
		if err := hooks.After(ctx, r.Call, a.code); err != nil {
			return nil, errors.Join(err, a.close())
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return response(req, a), nil
}

// read takes the request in, its body up to the limit.
func (s *Server) read(client string, req *http.Request) (*request, error) {
	r := &request{query: req.URL.Query(), userAgent: req.UserAgent(), accept: req.Header.Get("Accept")}
	r.Client = client
	r.mediaType, _, _ = mime.ParseMediaType(req.Header.Get("Content-Type"))
	if req.Body != nil {
		body, err := io.ReadAll(io.LimitReader(req.Body, maxRequestBytes+1))
		if err := errors.Join(err, req.Body.Close()); err != nil {
			return nil, fmt.Errorf("reading the request's body: %w", err)
		}
		r.Object, r.tooLarge = body, len(body) > maxRequestBytes
	}
	s.route(r, req.Method, req.URL.Path)
	return r, nil
}

// route understands a path. A resource that is not served leaves kind empty.
func (s *Server) route(r *request, method, path string) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	group, version := "", ""
	switch {
	case len(segments) >= 3 && segments[0] == "api":
		version, segments = segments[1], segments[2:]
	case len(segments) >= 4 && segments[0] == "apis":
		group, version, segments = segments[1], segments[2], segments[3:]
	default:
		r.Verb, r.Name = "get", path
		return
	}
	r.Group = group
	if len(segments) >= 3 && segments[0] == "namespaces" {
		r.Namespace, segments = segments[1], segments[2:]
	}
	r.Resource = segments[0]
	if len(segments) > 1 {
		r.Name = segments[1]
	}
	if len(segments) > 2 {
		r.Subresource = strings.Join(segments[2:], "/")
	}
	r.kind = s.kinds.find(group, version, r.Resource)
	r.Verb = verbOf(method, r)
	if r.named = r.Name != ""; !r.named && r.Verb == "create" {
		r.Name = nameIn(r.Object)
	}
}

// nameIn is the name of the object in a body, for hooks; empty if it has none
// or cannot be read.
func nameIn(body []byte) string {
	var object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if json.Unmarshal(body, &object) != nil {
		return ""
	}
	return object.Metadata.Name
}

func verbOf(method string, r *request) string {
	switch method {
	case http.MethodGet:
		if r.Name != "" {
			return "get"
		}
		if watch := r.query.Get("watch"); watch == "true" || watch == "1" {
			return "watch"
		}
		return "list"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		if r.mediaType == "application/apply-patch+yaml" {
			return "apply"
		}
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return strings.ToLower(method)
}

// serve answers a request and counts it.
func (s *Server) serve(ctx context.Context, r *request, hooks Hooks) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.dispatch(ctx, r, hooks)
	if err != nil {
		a = failed(err)
	}
	counted := Request{Call: r.Call, Code: a.code}
	counted.Object = nil
	s.requests = append(s.requests, counted)
	return a
}

func (s *Server) dispatch(ctx context.Context, r *request, hooks Hooks) (answer, error) {
	if r.kind == nil {
		return s.discover(r)
	}
	if r.Subresource != "" && (r.Subresource != "status" || !r.kind.hasStatus) {
		if r.kind.custom() {
			return answer{}, notFound(r)
		}
		return answer{}, unknownPath()
	}
	if r.tooLarge {
		return answer{}, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxRequestBytes))
	}
	if err := refuseUnsupported(r); err != nil {
		return answer{}, err
	}
	switch r.Verb {
	case "get":
		return s.get(r)
	case "list":
		return s.list(r)
	case "watch":
		return s.watch(ctx, r, hooks)
	}
	// A creation under a name is one in the collection for custom resources.
	named := r.named || r.Verb == "create"
	if !named && r.Verb == "update" && r.kind.custom() {
		return answer{}, apierrors.NewBadRequest("name is required")
	}
	if r.Namespace == "" || !named || r.Verb == "create" && r.named && !r.kind.custom() {
		return answer{}, apierrors.NewMethodNotSupported(r.kind.gvr.GroupResource(), r.Verb)
	}
	if err := checkOptions(r); err != nil {
		return answer{}, err
	}
	switch r.Verb {
	case "create":
		return s.create(r)
	case "update":
		return s.update(r)
	case "patch", "apply":
		return s.patch(r)
	case "delete":
		return s.remove(r)
	}
	return answer{}, apierrors.NewMethodNotSupported(r.kind.gvr.GroupResource(), r.Verb)
}

// refuseUnsupported is loud about options that a test would otherwise believe
// to have been honoured.
func refuseUnsupported(r *request) error {
	for option, allowed := range map[string]string{"dryRun": "", "continue": "", "fieldValidation": "Ignore Warn"} {
		if value := r.query.Get(option); value != "" && !strings.Contains(allowed, value) {
			return notImplemented(r, fmt.Sprintf("%s=%s is not served", option, value))
		}
	}
	for form := range strings.SplitSeq(r.accept, ",") {
		if form == "" || strings.Contains(form, "*/*") || strings.Contains(form, jsonType) && !strings.Contains(form, "as=") {
			return nil
		}
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + jsonType,
	}}
}

// notImplemented names itself, so that nobody takes it for a server's answer.
func notImplemented(r *request, what string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotImplemented,
		Message: fmt.Sprintf("the fake API server does not do this %s: %s", r.Verb, what),
	}}
}
