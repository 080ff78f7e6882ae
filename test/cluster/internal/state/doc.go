// Package state owns the one directory a development cluster lives in: where
// each file is, who may touch it now, and how all of it goes away.
//
// A directory belongs to a cluster when it holds the marker file; nothing
// without it is ever deleted. Whether a cluster lives is asked of the kernel
// (a file lock that dies with its holder), never of a stored process number.
// The package starts no process and knows nothing about Kubernetes.
package state
