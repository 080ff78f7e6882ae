// Package inside is the first process in the cluster's namespaces. It prepares
// mounts and network, starts the components, reaps orphans, runs commands for
// "devcluster exec" and carries connections from the host to kube-apiserver.
//
// It lives no longer than its supervisor: the supervisor holds the other end of
// a pipe, and when that closes, however it closes, this process exits and the
// kernel kills everything else in the namespace. kube-apiserver and
// kube-controller-manager are started again when they die; without etcd or the
// node nothing useful is left, so their end is the cluster's.
package inside
