package plan

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// plainOptions are options of a crt-list entry that name no other file.
var plainOptions = []string{
	"allow-0rtt", "alpn", "no-alpn", "ciphers", "ciphersuites", "curves", "ecdhe", "ssl-min-ver", "ssl-max-ver",
}

// plainWord is what can stand in a crt-list as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9!*_.,:/+@=-]+$`)

// IsPlainOption reports that an option of a crt-list entry can be given to a
// worker, and read back.
func IsPlainOption(name string) bool { return slices.Contains(plainOptions, name) }

// line is the entry's line after the certificate: options, then filters.
func (e CRTListEntry) line() string {
	var words []string
	if len(e.Options) > 0 {
		var options []string
		for _, o := range e.Options {
			options = append(append(options, o.Name), o.Args...)
		}
		words = append(words, "["+strings.Join(options, " ")+"]")
	}
	return strings.Join(append(words, e.SNIFilters...), " ")
}

func (e CRTListEntry) equal(other CRTListEntry) bool {
	return e.Cert == other.Cert && sameKeywords(e.Options, other.Options) && slices.Equal(e.SNIFilters, other.SNIFilters)
}

// matches reports that a worker tells the two apart by their options alone.
func (e CRTListEntry) matches(other CRTListEntry) bool {
	return e.Cert == other.Cert && slices.Equal(e.SNIFilters, other.SNIFilters)
}

// plain reports that the entry can be added.
func (e CRTListEntry) plain() bool {
	words := append([]string{e.Cert}, e.SNIFilters...)
	for _, o := range e.Options {
		if !IsPlainOption(o.Name) {
			return false
		}
		words = append(words, o.Args...)
	}
	return !slices.ContainsFunc(words, func(w string) bool { return !plainWord.MatchString(w) })
}

// sameLists reports that both plans record the same crt-lists, and those that
// are the record of no such file with the same entries.
func (c *composition) sameLists() bool {
	if len(c.from.CRTLists) != len(c.to.CRTLists) {
		return false
	}
	files := byPath(c.to.Files)
	for path, was := range c.from.CRTLists {
		now, ok := c.to.CRTLists[path]
		if !ok || files[path].Kind != FileCRTList && !reflect.DeepEqual(was, now) {
			return false
		}
	}
	return true
}

// crtList covers a list whose file changed: entries may go, and come at the end.
// Which certificate answers first for a name depends on their order.
func (c *composition) crtList(path string) bool {
	was, known := c.from.CRTLists[path]
	now, alsoKnown := c.to.CRTLists[path]
	if !known || !alsoKnown {
		return false
	}
	gone, added := listDifference(was.Entries, now.Entries)
	if len(gone)+len(added) > maxRowOperations || len(was.Entries) == 0 {
		return false
	}
	for _, e := range gone {
		// The first one answers for every name that no other has.
		if e.equal(was.Entries[0]) || countMatches(was.Entries, e) > 1 || slices.ContainsFunc(added, e.equal) {
			return false
		}
	}
	for _, e := range added {
		if !e.plain() {
			return false
		}
	}
	op := func(kind OperationKind) func(CRTListEntry) bool {
		return func(e CRTListEntry) bool {
			return c.add(Operation{Kind: kind, Path: path, Key: e.Cert, Value: e.line()})
		}
	}
	return all(added, op(OpCRTListAdd)) && all(gone, op(OpCRTListDelete))
}

func all[T any](list []T, do func(T) bool) bool {
	return !slices.ContainsFunc(list, func(item T) bool { return !do(item) })
}

// listDifference is what has to go from one list and to be appended to make the
// other.
func listDifference(was, now []CRTListEntry) (gone, added []CRTListEntry) {
	kept := 0
	for _, e := range was {
		if kept < len(now) && e.equal(now[kept]) {
			kept++
		} else {
			gone = append(gone, e)
		}
	}
	return gone, now[kept:]
}

func countMatches(entries []CRTListEntry, e CRTListEntry) (count int) {
	for _, other := range entries {
		if e.matches(other) {
			count++
		}
	}
	return count
}

// newCertificates stores the certificates that only entries of lists name. One
// that nothing names would be found in a folder, which only a reload reads.
func (c *composition) newCertificates(was, now map[string]File) bool {
	listed := listedIn(c.to)
	for _, path := range slices.Sorted(maps.Keys(now)) {
		file := now[path]
		if _, stays := was[path]; stays || file.Kind != FileCert {
			continue
		}
		if file.ReloadOnChange || !listed[path] || !c.add(Operation{Kind: OpCertAdd, Path: path}) {
			return false
		}
	}
	return true
}

// oldCertificates removes those that no list names any more.
func (c *composition) oldCertificates(was, now map[string]File) bool {
	listed, listedBefore := listedIn(c.to), listedIn(c.from)
	for _, path := range slices.Sorted(maps.Keys(was)) {
		file := was[path]
		if _, stays := now[path]; stays || !loaded(file) {
			continue
		}
		if file.Kind != FileCert || file.ReloadOnChange || listed[path] || !listedBefore[path] ||
			!c.add(Operation{Kind: OpCertDelete, Path: path}) {
			return false
		}
	}
	return true
}

// listedIn are the certificates that the lists of a plan name.
func listedIn(p *Plan) map[string]bool {
	listed := make(map[string]bool)
	for _, list := range p.CRTLists {
		for _, e := range list.Entries {
			listed[e.Cert] = true
		}
	}
	return listed
}
