package checkpoint

// MaxPointers bounds the pointer list, which HAPTIC lets grow with stale pod
// entries.
const MaxPointers = 16

// minKept is how many pointers stay without anybody asking for them: the newest
// and its predecessor.
const minKept = 2

// KeepRule is what decides which pointers stay beyond the newest two.
type KeepRule struct {
	// IntendedChecksum is the content checksum the effective intent names, or empty.
	IntendedChecksum string
	// Reported holds the checksums that pods report on the ordinary output.
	Reported map[string]bool
}

// NextPointers is the pointer list after a promotion: the newest, then the
// previous ones in their order that are its predecessor, intended or reported.
// Dropped are those the rule would keep but MaxPointers does not: the oldest, and
// never the one the intent names. Everything else falls out without mention.
// A late checkpoint of an older output is put among the previous by its caller,
// who knows the render order, and falls out unless somebody wants it.
func NextPointers(newest Pointer, previous []Pointer, keep KeepRule) (kept, dropped []Pointer) {
	kept = []Pointer{newest}
	for _, p := range previous {
		if p.Name == newest.Name {
			continue
		}
		if len(kept) < minKept || keep.wants(p) {
			kept = append(kept, p)
		}
	}
	for len(kept) > MaxPointers {
		i := keep.oldest(kept)
		dropped = append(dropped, kept[i])
		kept = append(kept[:i:i], kept[i+1:]...)
	}
	return kept, dropped
}

func (k KeepRule) wants(p Pointer) bool {
	return k.Reported[p.Checksum] || k.intends(p)
}

func (k KeepRule) intends(p Pointer) bool {
	return k.IntendedChecksum != "" && p.Checksum == k.IntendedChecksum
}

// oldest is the index of the last pointer that may be dropped. A pointer names
// no plan, so of several with the intended checksum any may be the intended one;
// only when nothing else is left between them does the oldest of them go.
func (k KeepRule) oldest(kept []Pointer) int {
	for i := len(kept) - 1; i >= minKept; i-- {
		if !k.intends(kept[i]) {
			return i
		}
	}
	return len(kept) - 1
}
