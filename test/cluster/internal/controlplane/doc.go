// Package controlplane runs the real etcd, kube-apiserver,
// kube-controller-manager and kubectl, linked into this binary, each in a
// process of its own, with the flags that a development cluster needs.
//
// Authentication, authorization, admission and aggregation are those of a
// production cluster. What is traded for speed is durability (etcd does not
// sync) and redundancy (one of each, no leader election).
package controlplane
