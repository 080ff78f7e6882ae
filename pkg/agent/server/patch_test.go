package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

const hostsMap = "maps/hosts.map"

func manyHosts() string {
	var rows strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&rows, "host-%d.example backend-%d\n", i, i)
	}
	return rows.String()
}

// patchBody is a whole apply in which the map comes as a patch.
func patchBody(t *testing.T, request client.ApplyRequest, p api.Patch, content string) []part {
	t.Helper()
	m := request.Manifest
	m.Files = slices.Clone(m.Files)
	parts := []part{{}, {`form-data; name="plan"`, string(request.Plan)}}
	for i, f := range m.Files {
		switch {
		case f.Path == hostsMap:
			m.Files[i].Patch = &p
			parts = append(parts, filePart(hostsMap, content))
		case request.Held[f.Path] != f.State():
			parts = append(parts, filePart(f.Path, string(request.Parts[f.Path])))
		}
	}
	parts[0] = manifestPart(t, m)
	return parts
}

// patchFrom replaces the first occurrence of a text in the map.
func patchFrom(o output, text string) api.Patch {
	base := api.Declare(api.FileSpec{Path: hostsMap, Kind: api.KindMap}, []byte(o[hostsMap])).State()
	return api.Patch{BaseDigest: base.Digest, BaseSize: base.Size, Offset: int64(strings.Index(o[hostsMap], text)), Length: int64(len(text))}
}

// TestFilePatch: one row of 10,000 is sent as that row, and the file is what was
// declared, in the set and in the worker. Whatever does not lead there is
// refused and changes nothing.
func TestFilePatch(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	start := p.rich("start").with(hostsMap, manyHosts())
	p.mustLoad(start)
	next := start.edit(t, hostsMap, "backend-5000\n", "other\n")
	good := patchFrom(start, "backend-5000")
	other := patchFrom(start.with(hostsMap, "else\n"), "else")
	other.Offset, other.Length, other.BaseSize = good.Offset, good.Length, good.BaseSize
	request := p.request(next)
	before, files := p.state(true), p.listing()
	refusals := []struct {
		name    string
		patch   api.Patch
		content string
		status  int
		want    string
	}{
		{"another base", other, "other", http.StatusConflict, `{"missing":["maps/hosts.map"]}`},
		{"another size of the base", api.Patch{BaseDigest: good.BaseDigest, BaseSize: good.BaseSize + 1, Offset: good.Offset, Length: good.Length + 1}, "other", http.StatusConflict, `"missing"`},
		{"another content", good, "wrong", http.StatusBadRequest, "declared as"},
		{"another place", api.Patch{BaseDigest: good.BaseDigest, BaseSize: good.BaseSize, Offset: good.Offset - 1, Length: good.Length}, "other", http.StatusBadRequest, "declared as"},
		{"less than declared", good, "othe", http.StatusBadRequest, "has 4 bytes, declared are 5"},
		{"more than declared", good, "others", http.StatusBadRequest, "exceeds 5 bytes"},
		{"an end behind the base", api.Patch{BaseDigest: good.BaseDigest, BaseSize: good.BaseSize, Offset: good.BaseSize, Length: good.Length}, "other", http.StatusBadRequest, "within the base"},
	}
	for _, tc := range refusals {
		t.Run(tc.name, func(t *testing.T) {
			contentType, body := encodeParts(t, patchBody(t, request, tc.patch, tc.content)...)
			if status, answer := p.post(contentType, body); status != tc.status || !strings.Contains(answer, tc.want) {
				t.Errorf("status %d %s, want %d and %q", status, answer, tc.status, tc.want)
			}
			if diff := cmp.Diff(files, p.listing()); diff != "" {
				t.Errorf("files changed (-before +after):\n%s", diff)
			}
		})
	}
	t.Run("a patch that is sent twice", func(t *testing.T) {
		parts := patchBody(t, request, good, "other")
		contentType, body := encodeParts(t, append(parts, filePart(hostsMap, "other"))...)
		if status, answer := p.post(contentType, body); status != http.StatusBadRequest || !strings.Contains(answer, "sent twice") {
			t.Errorf("status %d %s", status, answer)
		}
	})
	if diff := cmp.Diff(before, p.state(true)); diff != "" {
		t.Errorf("state (-before +after):\n%s", diff)
	}
	contentType, body := encodeParts(t, patchBody(t, request, good, "other")...)
	if size := body.Len(); size > 8<<10 {
		t.Errorf("one row was sent as %d bytes", size)
	}
	status, answer := p.post(contentType, body)
	var result api.Result
	must(t, json.Unmarshal([]byte(answer), &result))
	if status != http.StatusOK || !result.OK {
		t.Fatalf("status %d %s", status, answer)
	}
	p.mustHold(next)
	// The very same output again, sent whole: the patch was no part of it.
	whole := request
	whole.Held = nil
	if again, err := p.client.Apply(t.Context(), p.target, whole); err != nil || !again.At.Equal(result.At) {
		t.Errorf("a repeat was carried out anew: %+v, %v", again, err)
	}
}

func (p *pod) mustHold(o output) {
	p.t.Helper()
	if state := p.state(true); state.InvariantViolation != "" {
		p.t.Errorf("violation %s", state.InvariantViolation)
	}
	if file, err := os.ReadFile(filepath.Join(p.layout.current(), hostsMap)); err != nil || string(file) != o[hostsMap] {
		p.t.Errorf("the file has %d bytes and is another one: %v", len(file), err)
	}
}

// TestClientPatches: the client's own patches are taken beneath the worker;
// a pod that holds something else is sent the whole.
func TestClientPatches(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	current := p.rich("start").with(hostsMap, manyHosts())
	p.mustLoad(current)
	for i, row := range []string{"host-0.example", "host-5000.example", "host-9999.example"} {
		value := fmt.Sprint("value-", i)
		from, _, _ := strings.Cut(current[hostsMap][strings.Index(current[hostsMap], row+" "):], "\n")
		current = current.edit(t, hostsMap, from, row+" "+value)
		p.mustMove(current, plan.Operation{Kind: plan.OpMapSet, Path: hostsMap, Key: row, Value: value})
		p.mustHold(current)
	}
	// A stale idea of what the pod holds costs one more request.
	next := p.request(current.with(hostsMap, strings.Replace(current[hostsMap], "value-1", "value-x", 1)))
	first := api.Declare(api.FileSpec{Path: hostsMap, Kind: api.KindMap}, []byte(manyHosts()))
	next.Held[hostsMap] = first.State()
	if result, err := p.client.Apply(t.Context(), p.target, next); err != nil || !result.OK {
		t.Fatalf("apply from a stale state: %+v, %v", result, err)
	}
	p.mustHold(current.with(hostsMap, string(next.Parts[hostsMap])))
}
