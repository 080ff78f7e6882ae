// Package supervisor is the one process of a cluster that stays in the host's
// namespaces. It makes the keys, starts the namespace, forwards one port on
// 127.0.0.1 to kube-apiserver and checks that the cluster is usable.
//
// It holds the directory's lock as long as it lives. When it dies, killed or
// not, everything it started dies with it; only files remain, and the next up
// or down deletes them.
package supervisor
