// Package mtls is the transport identity of controller and agent: certificate,
// key and trust from three files of a mounted Secret, re-read while the process
// runs, and TLS 1.3 configurations of both sides that use them.
//
// It promises that a renewed Secret is used by the next handshake at least
// recheckInterval later, that a half-swapped or damaged one changes nothing and
// is logged once, and that no byte of a key reaches a log or an error.
//
// It is own code because the libraries at hand did not fit: apiserver's dynamic
// certificates bring a Kubernetes clientset into the agent, controller-runtime's
// watcher leaves the trust out, and grpc's pemfile prints the key into its log
// when certificate and key do not match.
//
// Its limit: removed trust ends with the next request, not within one, and the
// previous trust is not kept beside the new one. Put both into ca.crt to rotate.
package mtls
