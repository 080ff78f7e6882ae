// Package apiserver assembles the aggregated API server: its options, its
// configuration and the server itself.
//
// Promises: every request is authenticated and authorized by the cluster, with
// no anonymous access but to the health endpoints. Discovery answers at once,
// because the discovery of all groups is one operation for many clients; data
// and readiness wait until the first round of verification is through.
//
// Limits: it has no storage and writes nothing, but to the Lease and the
// EndpointSlice by which several replicas agree on one (pkg/apiserver/active).
// Decisions once made by the cluster's authorizer are remembered for ten seconds,
// and an open watch is not asked about again.
package apiserver
