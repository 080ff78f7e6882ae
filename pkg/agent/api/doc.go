// Package api is the HTTP contract between the controller and the agent that
// runs beside HAProxy in every proxy pod.
//
// It promises that both sides mean the same by every route, header, JSON name,
// limit and refusal: the client and the server import nothing of each other,
// only this package. It is pure: no sockets, files, clocks or goroutines.
//
// The JSON names are those of the agent API of HAPTIC, version 1. Members that
// nothing here uses yet (inventories) are left out on purpose, and a manifest that carries one is refused rather
// than obeyed in part.
//
// What is ours: every request under /v1 names the pod UID and the template UID
// it is meant for in headers, the epoch announcement, the phase of a pod, and
// the proofs. A digest is the plan's fast hash and can be forged on purpose;
// the proof beside it is a full SHA-256, and the agent checks both.
package api
