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
// Trust that is replaced stays valid beside the new one for a time that the
// process chose when it opened the folder, at most MaxPreviousTrust. To revoke
// trust at once, open with none, or start the process anew: what was removed is
// remembered in memory alone.
//
// Its limit: trust ends with the next request, not within one. A peer that gets
// new certificate and new trust in one step is only reached once this side has
// the new trust as well; put both into ca.crt first to rotate without a gap.
package mtls
