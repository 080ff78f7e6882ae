// Package integration tests the whole product against its real parts: it runs
// the demo as a person would (etcd, kube-apiserver, controllers, API server,
// agents, HAProxy, kubectl), and then does to it what an operator would.
//
// The tests share one demo and run one after another; each leaves the fleet as
// it found it. What is tried beside HAPTIC has a cluster of its own, in which
// HAPTIC's definitions are. They need the binaries in the folder HOLDFAST_BIN
// names. Two API servers are tried with a few watches and one rollout;
// -ha.watches=100 -ha.rolls=3 try what is promised.
package integration
