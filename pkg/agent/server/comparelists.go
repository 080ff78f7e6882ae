package server

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

// More names of what a worker that is ours must hold.
const (
	violationLists       = "worker_certificate_lists_are_the_files"
	violationAuthorities = "worker_authorities_are_the_files"
)

// listEntry is one line of a crt-list.
type listEntry struct {
	cert    string
	options []string
	filters []string
}

// readEntry reads a line of a file or of HAProxy's answer. It reports false for
// a line that is none.
func readEntry(line string) (listEntry, bool) {
	// HAProxy ends some options with a zero byte.
	line = strings.TrimSpace(strings.ReplaceAll(line, "\x00", ""))
	if line == "" || line[0] == '#' {
		return listEntry{}, false
	}
	var e listEntry
	e.cert, line = cutWord(line)
	if strings.HasPrefix(line, "[") {
		options, rest, _ := strings.Cut(line[1:], "]")
		e.options, line = strings.Fields(options), rest
	}
	for _, word := range strings.Fields(line) {
		if word[0] == '#' {
			break
		}
		e.filters = append(e.filters, word)
	}
	return e, true
}

func cutWord(line string) (word, rest string) {
	end := strings.IndexAny(line, " \t")
	if end < 0 {
		return line, ""
	}
	return line[:end], strings.TrimLeft(line[end:], " \t")
}

// equal compares options where all of them are shown as they were written.
func (e listEntry) equal(other listEntry) bool {
	if e.cert != other.cert || !slices.Equal(e.filters, other.filters) {
		return false
	}
	mine, theirs := slices.Sorted(slices.Values(e.options)), slices.Sorted(slices.Values(other.options))
	return !e.isPlain() || slices.Equal(mine, theirs)
}

// isPlain reports that the entry has no option that a version may not show.
func (e listEntry) isPlain() bool {
	words := slices.Clone(e.options)
	for len(words) > 0 {
		if !plan.IsPlainOption(words[0]) {
			return false
		}
		if words[0] == "allow-0rtt" || words[0] == "no-alpn" {
			words = words[1:]
		} else {
			words = words[min(2, len(words)):]
		}
	}
	return true
}

// crtLists compares the entries of each crt-list that was loaded from a file of
// the set, in order: the order decides who answers for a name.
func (c *comparison) crtLists(ctx context.Context) error {
	answer, err := c.ask(ctx, "show ssl crt-list")
	if err != nil {
		return err
	}
	for path := range strings.SplitSeq(answer, "\n") {
		if _, ok := c.files[path]; !ok || !plainPath.MatchString(path) {
			continue
		}
		content, err := c.root.ReadFile(path)
		if err != nil {
			return err
		}
		want := readEntries(string(content))
		if !c.areFiles(want) {
			continue // a bundle, or a folder set elsewhere, is shown by other names
		}
		shown, err := c.ask(ctx, "show ssl crt-list "+path)
		if err != nil {
			return err
		}
		if !slices.EqualFunc(want, readEntries(shown), listEntry.equal) {
			return &driftError{what: path + ": the worker has other entries"}
		}
	}
	return nil
}

func readEntries(text string) (entries []listEntry) {
	for line := range strings.SplitSeq(text, "\n") {
		if e, ok := readEntry(line); ok {
			entries = append(entries, e)
		}
	}
	return entries
}

// areFiles reports that every certificate is one file of the set.
func (c *comparison) areFiles(entries []listEntry) bool {
	return !slices.ContainsFunc(entries, func(e listEntry) bool { return c.files[e.cert].Path == "" })
}

// authorities compares each file of authorities, or of revocations, that the
// worker has loaded from a file of the set.
func (c *comparison) authorities(ctx context.Context, kind string) error {
	answer, err := c.ask(ctx, "show ssl "+kind)
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(answer, "\n") {
		path, _, _ := strings.Cut(line, " - ")
		if open, ok := strings.CutPrefix(path, "*"); ok && c.files[open].Path != "" {
			return &driftError{what: open + ": a transaction is open"}
		}
		if _, ok := c.files[path]; !ok || !plainPath.MatchString(path) {
			continue
		}
		content, err := c.root.ReadFile(path)
		if err != nil {
			return err
		}
		want, _, err := readAuthorities(content)
		if err != nil || want.kind != kind {
			continue // nothing that could be compared
		}
		answer, err := c.ask(ctx, "show ssl "+kind+" "+path)
		if err != nil {
			return err
		}
		if shown, _, ok := shownAuthorities(kind, answer); ok && !shown.equal(want) {
			return &driftError{what: path + ": the worker has other authorities"}
		}
	}
	return nil
}
