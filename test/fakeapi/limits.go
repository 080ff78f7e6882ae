package fakeapi

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The limits of a server and etcd with default flags.
const (
	// maxRequestBytes bounds a request's body at the API server.
	maxRequestBytes = 3 << 20
	// maxStoredBytes is etcd's bound of one request, maxMessageBytes the bound
	// of the client's messages, which is met first from there on.
	maxStoredBytes  = 3 << 19
	maxMessageBytes = 2 << 20
	// requestOverhead is what etcd's transaction adds to the object, beside
	// its key.
	requestOverhead = 80
)

// checkStoredSize refuses what etcd or its client would refuse.
func checkStoredSize(key string, encoded []byte) error {
	size := len(encoded) + len(key) + requestOverhead
	switch {
	case size > maxMessageBytes:
		return storeRefused(fmt.Sprintf("rpc error: code = ResourceExhausted desc = trying to send message larger than max (%d vs. %d)", size, maxMessageBytes))
	case size > maxStoredBytes:
		return storeRefused("etcdserver: request is too large")
	}
	return nil
}

func storeRefused(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: message,
	}}
}
