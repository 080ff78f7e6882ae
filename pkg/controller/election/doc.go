// Package election makes this process a leader, fences what it does as one, and
// gives leadership up only after the work has stopped.
//
// It carries out the decisions of pkg/fencing: client-go's elector holds the
// leader-election Lease, a term claims an epoch on it and the retained-state
// Lease, and everything a term does is checked against both. A term's context
// ends as soon as any read or write of the elector shows a holder, a transition
// count, a Lease UID or an epoch that is not the term's.
//
// Its limits: a check holds for the moment it was made. What a paused process
// still sends must be refused where it arrives: by resourceVersion at the API
// server, by the epoch at an agent.
package election
