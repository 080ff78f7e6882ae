// Package acceptance holds the acceptance tests of ADR-0033, under its names.
//
// They promise that what the record lists happens with nothing replaced: the
// manifests of manifests/base, the controller and agent binaries, HAProxy, and
// an API server with etcd. Each test has a namespace, a template and a fleet of
// its own, so all of them also run side by side. A run prints its timings.
//
// One command starts and stops what they need: make acceptance. The test binary
// starts a development cluster and runs itself again inside the cluster's
// network, where the pods' addresses are.
//
// Beside them are tests of what ADR-0033 says in passing: every kind of render
// failure under load, every reason of a refusal, an outage under one leader, and
// a lost node.
//
// Their limit: the development cluster has one node and no images. A lost node is
// an object that nobody serves, with its pods, and the time to fetch an image is
// not part of it.
package acceptance
