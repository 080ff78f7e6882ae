// Package netns gives a development cluster its private corner of the kernel:
// network, mount, process, host name and IPC namespaces, and a user namespace
// as well when the caller may not make the others alone.
//
// The process namespace is what makes the cluster go away for sure: when its
// first process dies, the kernel kills every other one, and mounts, sockets
// and addresses go with the namespaces. Nothing is ever changed on the host.
package netns
