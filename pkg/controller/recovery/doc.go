// Package recovery starts replacement pods from a checkpoint while nobody can
// render.
//
// It promises that nothing is given to a pod unless all of this held at once,
// immediately before: the term holds both Leases and the recorded intent names
// exactly the checkpoint; the checkpoint, read live, verifies to the last byte
// and carries a receipt; every configured pod of the fleet was asked and runs
// exactly that plan with exactly its files; HAProxy's current binary accepts the
// output; and the pod itself never received one. Anything else is a refusal from
// a closed list that names the pod or object, what was expected and found, and
// what to do. Configured pods receive nothing at all.
//
// One Recovery serves one term and keeps nothing beyond it. It may be stopped at
// any point: a pod that was started is a configured pod that agrees for whoever
// comes next.
//
// Its limits: it writes nothing but the mark on the retained-state Lease, and
// repairs nothing that is stored. Retained endpoints, routes and certificates
// are as old as the checkpoint. There is no override when the intent outran the
// checkpoint.
//
// The decisions (classify, agreement, notes) are pure functions in files of their
// own, and the choice is package selection's; the actor reads, calls them and acts.
package recovery
