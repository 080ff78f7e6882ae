// Package fakeapi is a strict API server in memory, for tests and for the
// simulation in virtual time. Real clientsets, dynamic clients and informers
// reach it through an in-process http.RoundTripper: no socket, and no goroutine
// of its own. It refuses what kube-apiserver 1.37 refuses, with the same
// answers; Script proves that against the real one.
package fakeapi
