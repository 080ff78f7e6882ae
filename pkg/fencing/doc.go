// Package fencing decides who may act on a template's fleet. It is pure: Leases
// come in as values, and what comes out is what to write, or an error that says
// why the term must not act. It reads no clock, talks to nobody and never
// retries; pkg/controller/election carries the decisions out.
//
// Two Leases take part (ADR-0033). L is the leader-election Lease: the elector
// of client-go writes its holder, and a term adds its epoch once. R is the
// retained-state Lease: it holds the intent, which is the output the fleet was
// last told to run, together with the epoch and the claim of the term that may
// change it.
//
// Limits: a Lease proves nothing at the moment of an effect, only when it was
// read. Agents therefore refuse old epochs themselves, and stored objects refuse
// old writers by resourceVersion.
package fencing
