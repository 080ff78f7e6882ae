// Package active makes one of several replicas of the API server the one that
// clients reach.
//
// The holder of a Lease writes its own address, and no other, into the
// EndpointSlice of a Service without a selector. The others are standbys: warm,
// Ready, with the same views. Three things make list and watch right over that.
//
// Versions that clients hold come from the active replica alone, and those of
// two terms never overlap. Whoever takes the Lease begins above the stamp that
// is recorded on it, whatever its own clock says, and records its own stamp in
// the same write; each renewal records how far its versions have come. So a
// version of another term is below everything the present one has issued, and is
// answered 410. Taking the Lease renumbers the warm views in one step, and ends
// the watches that somebody opened here before. Only a replica that takes the
// Lease back, with nobody in between, goes on with its history.
//
// A standby that is reached all the same answers with versions below every
// stamp and resumes none, not even its own: another standby may have issued the
// same number for something else.
//
// A former active keeps its history for as long as the EndpointSlice still leads
// to it, and a moment longer, because clients are sent there until then. From
// there on it ends its watches and answers as a standby; and it asks clients to
// dial anew, since a connection that was kept would hold them here for good.
//
// The EndpointSlice is written only after it was read, then the Lease read and
// found ours, under the version that was read. A replica that was paused cannot
// put itself over its successor, because the successor's write comes after it
// took the Lease and changes that version.
//
// On a graceful stop the Lease is released at once, and the process goes on
// serving until the EndpointSlice leads elsewhere.
//
// Limits: the two objects are never created here, because a right to create
// cannot be confined to a name; they come with the manifests. A Lease that is
// deleted takes the recorded stamp with it, and clocks decide until it is
// recorded anew. A client may meet two histories within the moment that an
// EndpointSlice takes to reach every aggregator; it is answered 410 then and
// starts over.
package active
