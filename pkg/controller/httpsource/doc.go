// Package httpsource fetches the documents that a template declares as
// httpResources, outside of any render, and keeps of each what may be used.
//
// It promises that a render waits for no network: it is given an Offer, which
// does not change while it is used. What was fetched is a candidate; whoever
// renders accepts it once a complete output with it has passed HAProxy's check,
// or refuses it, and then the content that was accepted before stays in use. A
// document that can no longer be fetched keeps its content for as long as this
// process lives. Begin forgets what was accepted, and not what was fetched: a
// term checks everything anew.
//
// Every fetch is bounded in time, size and redirects, verifies certificates,
// and speaks http and https only. Nothing that it tells of a document holds the
// user information or the query of a URL.
//
// Its limits: nothing is stored, so a new process starts with nothing; a
// document must be answered without a request body, a client certificate or
// headers of one's own; its certificate is verified with the system's
// authorities.
package httpsource
