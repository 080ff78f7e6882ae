package fakeapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answer is what goes back: bytes, or a stream for a watch.
type answer struct {
	code        int
	contentType string
	// retryAfter is in seconds; clients retry by themselves if it is set.
	retryAfter int32
	body       []byte
	stream     io.ReadCloser
}

// unknownPath is what the server's own groups answer for what they lack.
func unknownPath() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Details: &metav1.StatusDetails{}, Message: "the server could not find the requested resource",
	}}
}

// notServed is the answer for groups nobody serves, and for custom ones.
func notServed() answer {
	return answer{code: http.StatusNotFound, contentType: "text/plain; charset=utf-8", body: []byte("404 page not found\n")}
}

func failed(err error) answer {
	status := statusOf(err)
	a := answer{code: int(status.Code), contentType: jsonType, body: mustEncode(status)}
	if status.Details != nil {
		a.retryAfter = status.Details.RetryAfterSeconds
	}
	return a
}

// statusOf is the Status that a server answers for an error.
func statusOf(err error) metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		return metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
		}
	}
	status := known.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	return status
}

func (a answer) close() error {
	if a.stream == nil {
		return nil
	}
	return a.stream.Close()
}

func response(req *http.Request, a answer) *http.Response {
	body, length := a.stream, int64(-1)
	if body == nil {
		body, length = io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body))
	}
	header := http.Header{"Content-Type": {a.contentType}}
	if a.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(a.retryAfter)))
	}
	return &http.Response{
		Status: http.StatusText(a.code), StatusCode: a.code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        header,
		Body:          body,
		ContentLength: length,
		Request:       req,
	}
}
