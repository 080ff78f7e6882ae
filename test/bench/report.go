package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
)

// report collects results until the end, where they stand together.
type report struct {
	targets []target
}

// target is one measured value against its bound.
type target struct {
	name string
	// value and bound are in unit.
	value, bound float64
	unit         string
	relation     relation
}

// relation is how a value must stand to its bound.
type relation string

const (
	floor   relation = ">="
	ceiling relation = "<="
	equal   relation = "="
)

func (r *report) add(t target) { r.targets = append(r.targets, t) }

// met is false for a value that is no number.
func (t target) met() bool {
	switch t.relation {
	case floor:
		return t.value >= t.bound
	case ceiling:
		return t.value <= t.bound
	default:
		return t.value == t.bound
	}
}

func (t target) String() string {
	verdict := "MISS"
	if t.met() {
		verdict = "ok"
	}
	return fmt.Sprintf("target %s value %s%s bound %s%s%s %s", t.name, short(t.value), t.unit, t.relation, short(t.bound), t.unit, verdict)
}

// short leaves out what a bound of few digits does not have.
func short(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

func (r *report) print(w io.Writer) {
	for _, t := range r.targets {
		fmt.Fprintln(w, t)
	}
}

// say is a line of progress or of detail.
func say(format string, args ...any) {
	fmt.Printf("bench: "+format+"\n", args...)
}

// progress says how far a long work is, at most every few seconds.
type progress struct {
	what  string
	total int
	last  time.Time
}

const progressInterval = 15 * time.Second

func (p *progress) at(done int) {
	if now := time.Now(); now.Sub(p.last) >= progressInterval || done == p.total {
		p.last = now
		say("  %s: %d of %d", p.what, done, p.total)
	}
}

// percentile is the nearest-rank one: a value that was measured, of which the
// given share of all values is not above it.
func percentile[T cmp.Ordered](values []T, share float64) T {
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(share * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func median[T cmp.Ordered](values []T) T { return percentile(values, 0.5) }
