// Package gate asks HAProxy itself whether it would take an output: the binary
// the controller carries checks the complete output with -c and -dr.
//
// It promises that only exit code 0 is valid, that the check sees the files
// under the paths a pod sees them and the environment a pod declares, that at
// most one check runs at a time and the newest request is next, and that after
// a time-out nothing of the process is left. The folder of a check holds keys; one
// that a killed process left is removed by the next, see Sweep.
//
// Its limits: the binary here can differ from a pod's, and what the check does
// not do it cannot judge, such as whether a port is free. The pod's own reload
// is the proof; the gate keeps what is plainly wrong from becoming an intent.
package gate
