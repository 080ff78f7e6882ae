package viewcache

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// versionsPerMillisecond is the room a start stamp leaves for the counter.
const versionsPerMillisecond = 1_000_000

// Versions issues resource versions for every cache of one process.
//
// A version is one decimal number: the start stamp in milliseconds since 1970,
// times 1,000,000, plus a counter. Today that has 19 digits, and it fits 64 bits
// without a sign until the year 2554. The counter may grow past a million: the
// number then runs into the next millisecond, which is harmless as long as a
// process issues fewer than a million versions for each millisecond it lives.
// A later process therefore starts above every version of an earlier one,
// provided the clock did not go back between them. Where it may have, whoever
// starts a process hands it a time after the Latest of the one before.
type Versions struct {
	base uint64
	last atomic.Uint64
	// standby versions are answered but never resumed.
	standby bool
}

// NewVersions returns a counter that starts at the given time. The time may
// not be before 1970, because the stamp has no sign.
func NewVersions(start time.Time) *Versions {
	v := &Versions{base: uint64(max(start.UnixMilli(), 1)) * versionsPerMillisecond}
	v.last.Store(v.base)
	return v
}

// NewStandbyVersions returns a counter for a process that is not the one whose
// versions clients hold. It starts at 1, below every stamp, so that nothing that
// a standby says passes for newer than what a client knows. Two standbys count
// over the same numbers, so none of them resumes any.
func NewStandbyVersions() *Versions {
	v := &Versions{base: 1, standby: true}
	v.last.Store(v.base)
	return v
}

// Latest is the stamp that the newest version lies under, which may be after the
// start by now. Versions with a later one are above all that were issued.
func (v *Versions) Latest() time.Time {
	return time.UnixMilli(int64(v.last.Load() / versionsPerMillisecond))
}

func (v *Versions) next() uint64 {
	return v.last.Add(1)
}

func formatVersion(version uint64) string {
	return strconv.FormatUint(version, 10)
}

// errMalformedVersion is the client's mistake, not an expired version.
var errMalformedVersion = errors.New("not a resource version")

// parseVersion accepts what the API conventions call well formed: decimal, no
// sign, no leading zero, not "0". Numbers beyond 64 bits are well formed too,
// but nobody can have issued them.
func parseVersion(text string) (uint64, error) {
	if _, err := resourceversion.CompareResourceVersion(text, text); err != nil {
		return 0, fmt.Errorf("%w: %q", errMalformedVersion, text)
	}
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return ^uint64(0), nil
	}
	return version, nil
}
