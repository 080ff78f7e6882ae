// Package controller wires rendering, gate, deployment, publication and leader
// election into one process for one template.
//
// It promises that nothing survives a term: every piece that decides or acts is
// made when the term begins and has ended when the term has. Only watches live
// longer, so that a follower is warm. A failed render ends nothing: the proxies
// keep what they have, no intent is written, and the failure is told by the
// template's condition, an event, a metric and /healthz until a render passes.
//
// Every output waits for HAProxy's verdict before it is dispatched, not only
// the first of a term. That is stricter than the design asks, and the reason
// why nothing here ever has to be reverted.
//
// On a graceful stop the last dispatched output is finished and its newest
// receipt published before the Lease is released. A change of the template's
// UID, of its controller settings or of its dataplane settings ends the term
// the same way and begins another one.
//
// A term that cannot render and has no output of its own starts replacement pods
// from the retained checkpoint (package recovery). Its first accepted render
// ends that, before it becomes the intent.
//
// Its limit: one template per process.
package controller
