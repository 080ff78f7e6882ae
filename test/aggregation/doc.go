// Package aggregation tests the API server behind a real aggregator: our binary is
// a process of a development cluster's network, and manifests/ tell kube-apiserver
// where it is. What others met in public is done to it: it is stopped, frozen, cut
// off from the cluster, given other certificates, and asked by kubectl for
// everything that kubectl can show.
//
// The names of the tests carry the numbers of the cases in docs/cases.md, and a
// letter where a case has parts.
//
// Limits: one cluster and one APIService are shared, so the tests run one after
// another. The process is not a pod's: probes are judged by the numbers in
// manifests/, and test/integration has the pod. The tests need the binaries in
// HOLDFAST_BIN and start a cluster of their own: run make conformance.
package aggregation
