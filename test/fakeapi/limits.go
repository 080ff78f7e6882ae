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
	// of its client's messages, which is met first from there on.
	maxStoredBytes  = 3 << 19
	maxMessageBytes = 2 << 20
)

// What a transaction adds to the object, measured on the real server. It
// names the key twice for a creation and thrice for an update, which reads the
// object back when it fails.
const (
	createOverhead, createKeys = 25, 2
	updateOverhead, updateKeys = 32, 3
	// raftOverhead is what etcd adds before it looks at its own bound.
	raftOverhead = 32
)

// checkStoredSize refuses what etcd or its client would refuse. It is exact
// for custom resources: etcd holds their JSON, with a newline and without the
// version. Built-in objects are held in a denser form, so they are refused a
// little too early.
func checkStoredSize(o *stored, update bool) error {
	keys, overhead := createKeys, createOverhead
	if update {
		keys, overhead = updateKeys, updateOverhead
	}
	version := len(`"resourceVersion":"",`) + len(o.meta.GetResourceVersion())
	key := o.kind.path(o.meta.GetNamespace(), o.meta.GetName())
	size := len(o.encoded) - version + len("\n") + keys*len(key) + overhead
	switch {
	case size > maxMessageBytes:
		return storeRefused(fmt.Sprintf("rpc error: code = ResourceExhausted desc = trying to send message larger than max (%d vs. %d)", size, maxMessageBytes))
	case size+raftOverhead > maxStoredBytes:
		return storeRefused("etcdserver: request is too large")
	}
	return nil
}

func storeRefused(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: message,
	}}
}
