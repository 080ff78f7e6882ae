// Package node is the cluster's one node: it registers itself, binds pods to
// itself, runs them as local processes and serves the kubelet's port for logs,
// exec and port-forward.
//
// Node registration, heartbeats and the kubelet's HTTP routes are those of
// virtual-kubelet. Its PodController is not used: it knows pods by name, so a
// pod and its successor of the same name are one to it; it removes the API
// object when the grace period is over, whether or not the processes have
// ended; and it replaces the whole status by what it remembers, so that a
// condition set by somebody else is lost. Tests of draining and replacement
// depend on each of these being right.
//
// From the kubelet itself come the watches on ConfigMaps and Secrets, token
// requests, the volume writer and the probes.
//
// There is no scheduler: the node binds every pod without a node to itself,
// with the scheduler's identity. Images are names only: a container needs a
// command, which is looked up on this machine. Not there: activeDeadlineSeconds,
// ephemeral containers, resource limits, capabilities, several nodes.
package node
