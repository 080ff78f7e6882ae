// Package selection decides which checkpoint replacement pods may be started
// from, out of what is stored: the one that the intent names, if it verifies to
// the last byte and carries a receipt, or a refusal from a closed list.
//
// It is pure: recovery calls it with what it read live, the plugin's drill with
// what it read of a cluster or an export, and both get the same answer.
//
// Its limit: it sees what is stored. Whether pods agree only they can tell, so
// the reasons that concern pods are listed here and found by recovery.
package selection
