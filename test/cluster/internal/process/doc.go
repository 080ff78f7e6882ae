// Package process runs containers as local processes: each in mount, process,
// host name and IPC namespaces of its own, in the network of the cluster.
//
// A container's first process is the first of its process namespace, so killing
// it kills the whole tree, and nothing of a container survives it. There are no
// cgroups: resource limits are not enforced. Capabilities, seccomp and SELinux
// settings are not applied.
package process
