package render

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

// sectionKeywords start a section of HAProxy's configuration.
var sectionKeywords = []string{
	"acme", "backend", "cache", "crt-store", "defaults", "fcgi-app", "frontend", "global", "http-errors", "listen",
	"log-forward", "log-profile", "mailers", "peers", "program", "resolvers", "ring", "traces", "userlist",
}

// A backend's place in the configuration is held by a mark until everything is
// rendered, so that its text survives pipes and its offsets are exact. The
// bytes cannot occur otherwise: control characters are refused.
const (
	markStart = "\x04"
	markEnd   = "\x05"
)

var backendMark = regexp.MustCompile(`(?m)^[ \t]*\x04(\d+)\x05[ \t]*(?:\n|\z)`)

// backend is the template function: it makes a section and returns its mark.
func (r *run) backend(data map[string]any) (string, error) {
	if !r.collects {
		return "", fmt.Errorf("backend belongs into %s", configTemplate)
	}
	r.fleet()
	made, err := newBackend(data)
	if err != nil {
		return "", err
	}
	if r.backendNames[made.record.Name] {
		return "", fmt.Errorf("backend %q is made twice", made.record.Name)
	}
	r.backendNames[made.record.Name] = true
	r.backends = append(r.backends, made)
	return markStart + strconv.Itoa(len(r.backends)-1) + markEnd, nil
}

// tile replaces the marks and cuts the configuration into sections without gap
// or rest.
func (r *run) tile(text []byte) (configuration []byte, sections []plan.Section, err error) {
	var out bytes.Buffer
	emit := func(kind, name string, piece []byte) {
		if len(piece) > 0 {
			out.Write(piece)
			sections = append(sections, plan.Section{Kind: kind, Name: name, TextDigest: plan.Digest(piece), Length: int64(len(piece))})
		}
	}
	seen := make([]bool, len(r.backends))
	from, after := 0, ""
	for _, at := range backendMark.FindAllSubmatchIndex(text, -1) {
		n, err := strconv.Atoi(string(text[at[2]:at[3]]))
		if err != nil || n >= len(r.backends) || seen[n] {
			return nil, nil, invalid(configTemplate, "a backend is printed twice")
		}
		seen[n] = true
		if err := startsSection(text[from:at[0]], after); err != nil {
			return nil, nil, err
		}
		emit(plan.SectionCore, "", text[from:at[0]])
		emit(plan.SectionBackend, r.backends[n].record.Name, []byte(r.backends[n].text))
		from, after = at[1], r.backends[n].record.Name
	}
	if err := startsSection(text[from:], after); err != nil {
		return nil, nil, err
	}
	emit(plan.SectionCore, "", text[from:])
	for n, e := range r.backends {
		if !seen[n] {
			return nil, nil, invalid(configTemplate, "backend %q is not printed on a line of its own", e.record.Name)
		}
	}
	return out.Bytes(), sections, nil
}

// startsSection refuses lines that would belong to the backend before them
// without being in its record.
func startsSection(text []byte, after string) error {
	if after == "" {
		return nil
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if !slices.Contains(sectionKeywords, words[0]) {
			return invalid(configTemplate, "the line %q after backend %q starts no section; use options", strings.TrimSpace(line), after)
		}
		return nil
	}
	return nil
}
