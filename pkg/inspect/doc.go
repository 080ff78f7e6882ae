// Package inspect verifies what is retained without a server of ours: over
// files that kubectl or a backup tool wrote, or over a live cluster.
//
// Promises: the views and verdicts are those the API would serve for the same
// objects, since both are computed by pkg/record, pkg/checkpoint, pkg/fencing
// and pkg/view. Nothing that is printed holds content or key bytes. Every input
// is bounded, and no input makes it panic. What the input cannot tell (half an
// export, stripped UIDs, no right to read) is Unknown and never damage.
//
// Limits: it needs memory for all of its input at once. Agents are out of
// sight, so a sound checkpoint may still be refused by a fleet that disagrees.
// Times of conditions come from managed fields, which exports leave out unless
// asked for; then they are creation times.
package inspect
