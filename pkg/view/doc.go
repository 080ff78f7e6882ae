// Package view computes the views RetainedCheckpoint and DeploymentIntent from
// what was read of stored objects. It is pure: the same facts give the same
// view in every process, at any time, so that replicas agree and a recomputed
// view that says nothing new changes nothing.
//
// Times in a view are stored times: of the objects a condition is about, as
// far as Kubernetes records them. They say when the facts were written, not
// when somebody looked.
//
// Limits: it verifies nothing itself; verdicts come from pkg/checkpoint and
// the effective intent from pkg/fencing. Agents are out of sight, so what is
// Recoverable here may still be refused by a fleet that disagrees.
package view
