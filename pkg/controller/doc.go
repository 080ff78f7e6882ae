// Package controller wires rendering, gate, deployment, publication and leader
// election into one process for one template.
//
// It promises that nothing survives a term: every piece that decides or acts is
// made when the term begins and has ended when the term has. Only watches live
// longer, so that a follower is warm. A failed render ends nothing: the proxies
// keep what they have, no intent is written, and the failure is told by the
// template's condition, an event, a metric and /healthz until a render passes.
//
// The first output of a term waits for HAProxy's verdict. Later ones are
// dispatched ahead of theirs, since the reload is a check of its own on each pod,
// but nothing is published of an output before it has passed: its receipts wait.
// A refusal takes the output back from pods that have not loaded it, makes the
// output before the intent again, and has the next outputs wait for their
// verdicts until one passes. No verdict in time is no refusal: nothing is taken
// back, nothing published, and the gate is asked again.
//
// On a graceful stop the last dispatched output is finished, its verdict waited
// for, and its newest receipt published before the Lease is released. A change of the template's
// UID, of its controller settings or of its dataplane settings ends the term
// the same way and begins another one.
//
// A term that cannot render and has no output of its own starts replacement pods
// from the retained checkpoint (package recovery). Its first accepted render
// ends that, before it becomes the intent.
//
// A process does not start over another product's definitions, beside its
// controller, or under its Lease. It ends then with a RefusalError and has written
// nothing. Only what was found is a reason, never a question without an answer.
//
// Its limit: one template per process.
package controller
