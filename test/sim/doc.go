// Package sim runs the production controllers against a strict API server and
// model agents under seeded random schedules, in virtual time, and checks the
// invariants of fencing, publication, collection, recovery and drain.
//
// What runs is the code itself: whole controllers with client-go's elector,
// clientsets and informers. What is modelled is the world: the network, where
// each request, reply and watch event waits until the schedule releases, delays
// or loses it; the API server (package fakeapi); the agents; and the faults. A
// schedule has a safety phase with faults and a liveness phase without.
//
// The Go scheduler is not repeatable, even in a bubble of testing/synctest. So
// nothing moves while the schedule decides: when all is quiet, one waiting item
// is released, or the clock moves, or a fault happens. Each decision is
// recorded, and a trace of decisions replays a run.
//
// Its limits: the clocks of all processes are one clock, so a clock that jumps
// ahead is shown to its process as a Lease that ran out; a paused process is
// one whose network stands still, while its timers run.
package sim
