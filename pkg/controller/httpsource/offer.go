package httpsource

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrPending says that a document is being fetched for the first time. It
// passes by itself, since a fetch is bounded.
var ErrPending = errors.New("not fetched yet")

// UnavailableError says that a critical document was never fetched.
type UnavailableError struct {
	Name, URL string
	Err       error
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("critical httpResource %q (%s): never fetched: %v", e.Name, e.URL, e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// Offer is what all documents hold at one time.
type Offer struct {
	choices map[string]choice
}

// choice is one document's part of an offer.
type choice struct {
	url      string
	critical bool
	memory
}

// fresh reports content that no passed render of the term has used.
func (c choice) fresh() bool {
	return c.newest != nil && c.refusal == nil && (c.accepted == nil || c.accepted.Digest != c.newest.Digest)
}

// spare reports that a render can do without the newest content.
func (c choice) spare() bool { return c.accepted != nil || !c.critical }

// settled is the content to fall back to.
func (c choice) settled() string {
	switch {
	case c.accepted != nil:
		return c.accepted.Text
	case c.critical && c.newest != nil:
		// There is nothing else, so it is tried with every render.
		return c.newest.Text
	}
	return ""
}

// Fresh names the documents whose newest content no passed render has used. An
// output with it must not be dispatched before HAProxy has passed it.
func (o *Offer) Fresh() []string { return o.names(choice.fresh) }

// Spare names those of Fresh that a render can do without.
func (o *Offer) Spare() []string {
	return o.names(func(c choice) bool { return c.fresh() && c.spare() })
}

func (o *Offer) names(which func(choice) bool) []string {
	out := []string{}
	for _, name := range slices.Sorted(maps.Keys(o.choices)) {
		if which(o.choices[name]) {
			out = append(out, name)
		}
	}
	return out
}

// Contents are the texts for one render, by name: the newest of the given
// documents, and of all others what is settled.
func (o *Offer) Contents(fresh []string) map[string]string {
	out := make(map[string]string, len(o.choices))
	for name, c := range o.choices {
		out[name] = c.settled()
		if slices.Contains(fresh, name) && c.newest != nil {
			out[name] = c.newest.Text
		}
	}
	return out
}

// Required names those of Fresh that no render can do without.
func (o *Offer) Required() []string {
	return o.names(func(c choice) bool { return c.fresh() && !c.spare() })
}

// check refuses an offer that is not complete.
func (o *Offer) check() error {
	for _, name := range slices.Sorted(maps.Keys(o.choices)) {
		c := o.choices[name]
		switch {
		case !c.tried:
			return fmt.Errorf("httpResource %q (%s): %w", name, c.url, ErrPending)
		case c.newest == nil && c.critical:
			return &UnavailableError{Name: name, URL: c.url, Err: c.failure}
		}
	}
	return nil
}
