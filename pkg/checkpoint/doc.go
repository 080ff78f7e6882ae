// Package checkpoint knows stored, acknowledged outputs: their names, checksums,
// payloads, set IDs and evidence, and how to verify one from its bytes or from
// digests of them. It promises the wire format to the byte in what it writes, and
// a verdict with every finding, never only the first, on what it reads.
//
// The package is pure: no clock, no goroutine, no log, nothing of Kubernetes.
// Package record fills its plain values from stored objects. It is no judge of
// leases, intents or the fleet, and its hashes are no signatures: whoever may
// replace objects, owners and pointers can replace the checkpoint.
//
// # Two ways to a verdict
//
// Bytes become facts (IngestCheckpoint, IngestChild), and facts are judged
// (Judge). Facts are digests and names, a few KiB whatever the content; so a
// server may keep facts of everything and judge anew when one of them changes.
// Verify does both at once and restores the output. There is one implementation
// of every check, and the same finding from either way.
//
// One check needs all bytes in one stream: the content checksum. Who judges from
// facts streams a checkpoint once (StreamContentChecksum), remembers which
// evidence gave which checksum, and answers Input.ContentChecksum from that.
//
// # States
//
// Damaged: something is not what its names and checksums say. Unknown: nothing
// is known to be wrong, but not everything could be checked: a form of another
// release, no right to read, still being published or read. Verified: every
// check passed. Notes lower nothing: members of later releases, labels, a missing
// receipt (which is Verdict.Acknowledged), and a set ID that is not our
// candidate in a checkpoint without evidence, because the form is published
// nowhere and all it protects is checked elsewhere.
//
// A checkpoint with evidence was written by this package. There our forms of
// the set ID, of backend line digests and of map entries are known, and a
// difference is damage.
//
// # Evidence
//
// The payload's outer layer carries a third member, evidence, beside plan and
// artifacts; other readers ignore it. Its value is sha256: and the 64 hex digits
// of SHA-256 over a list of fields. Every field is preceded by its length in
// bytes as a big-endian unsigned 64-bit number. A number is a field of 8 bytes,
// big-endian. Content is two fields: its size as a number, and its SHA-256, 32
// bytes. The fields are
//
//	the text holdfast-evidence-v1
//	content of the configuration
//	content of the plan's JSON as it stands in the inner layer, its ID included
//	number of artifacts
//	for each artifact in walk order (family number, then name by bytes):
//	    family, one byte
//	    name, path, runtime path, each as text
//	    reload flag, one byte, 0 or 1
//	    content of the artifact
//
// So evidence is a digest of digests: it takes no extra pass over the bytes, and
// whoever holds the digests can check it. Unlike the content checksum it is
// framed and not cut short. The object's name covers the payload by SHA-256,
// and so binds bytes and declarations to the name.
//
// # Names of shared children
//
// HAPTIC 0.7 shares children between checkpoints under names whose form is
// published nowhere. Ours is
//
//	<stem>-<scope>-content-<64 hex>
//
// The stem is made from the file's name, as for every child. The scope is the
// first 12 hex digits of SHA-256 over template name, NUL, template UID, so that a
// template that is created anew has new children. The content suffix is the one
// of ADR-0031: SHA-256 over kind, NUL, path, NUL, file checksum, NUL, and true for
// a CA role or false. The stem is cut so that a name has at most 253 characters,
// and it is a legal DNS-1123 subdomain for every file name. When reading, any
// name of a template-owned child that holds -content- and the right digest is
// accepted.
//
// # Bounds
//
// 64 MiB for a decoded value and for all values of a checkpoint together, 4,096
// files, 65,536 sections, 256 findings on one object. Reaching one is a finding
// with a reason of its own, and has cost no more memory than the bound.
package checkpoint
