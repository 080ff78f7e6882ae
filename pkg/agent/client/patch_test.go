package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// rowsOf is a map of 10,000 rows, one of which has another value.
func rowsOf(changed int, value string) []byte {
	var b bytes.Buffer
	for i := range 10_000 {
		if i == changed {
			fmt.Fprintf(&b, "host-%d.example %s\n", i, value)
			continue
		}
		fmt.Fprintf(&b, "host-%d.example backend-%d\n", i, i)
	}
	return b.Bytes()
}

func requestOf(contents map[string][]byte) ApplyRequest {
	request := ApplyRequest{Plan: []byte("plan"), Parts: contents, Held: map[string]api.FileState{}, Features: []string{api.FeatureFilePatch}}
	for _, path := range slices.Sorted(maps.Keys(contents)) {
		request.Manifest.Files = append(request.Manifest.Files, api.Declare(api.FileSpec{Path: path, Kind: api.KindMap}, contents[path]))
	}
	return request
}

// received is what came with one apply: the part of each file, and the patches.
type received struct {
	Parts   map[string]int
	Patches map[string]api.Patch
}

func receive(t *testing.T, r *http.Request) received {
	t.Helper()
	form, err := r.MultipartReader()
	if err != nil {
		t.Fatal(err)
	}
	got := received{Parts: map[string]int{}, Patches: map[string]api.Patch{}}
	for part, err := form.NextRawPart(); err == nil; part, err = form.NextRawPart() {
		got.add(t, part)
	}
	return got
}

func (r *received) add(t *testing.T, part *multipart.Part) {
	t.Helper()
	var content bytes.Buffer
	if _, err := content.ReadFrom(part); err != nil {
		t.Fatal(err)
	}
	switch part.FormName() {
	case api.PartFile:
		r.Parts[part.FileName()] = content.Len()
	case api.PartManifest:
		var m api.Manifest
		if err := json.Unmarshal(content.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		for _, f := range m.Files {
			if f.Patch != nil {
				r.Patches[f.Path] = *f.Patch
			}
		}
	}
}

// TestApplyPatchesWhatChangedALittle: one row of 10,000 costs that row, and the
// whole file when the pod does not have the base.
func TestApplyPatchesWhatChangedALittle(t *testing.T) {
	first := requestOf(map[string][]byte{"big": rowsOf(-1, ""), "small": []byte("a b\n")})
	second := requestOf(map[string][]byte{"big": rowsOf(5000, "other"), "small": []byte("a c\n")})
	for _, f := range first.Manifest.Files {
		second.Held[f.Path] = f.State()
	}
	var got []received
	answers := []any{api.Result{OK: true}, api.Missing{Missing: []string{"big", "small"}}, api.Result{OK: true}, api.Result{OK: true}}
	c, target := fake(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, receive(t, r))
		status := http.StatusOK
		if _, missing := answers[len(got)-1].(api.Missing); missing {
			status = http.StatusConflict
		}
		answer(t, w, status, answers[len(got)-1])
	})
	without := second
	without.Features = nil
	for _, request := range []ApplyRequest{first, second, without} {
		if result, err := c.Apply(t.Context(), target, request); err != nil || !result.OK {
			t.Fatalf("apply: %+v, %v", result, err)
		}
	}
	if second.Manifest.Files[0].Patch != nil || len(second.Parts["big"]) != len(rowsOf(5000, "other")) {
		t.Error("the request itself was changed")
	}
	was, now := rowsOf(-1, ""), rowsOf(5000, "other")
	offset := bytes.Index(was, []byte("backend-5000"))
	whole := received{Parts: map[string]int{"big": len(now), "small": 4}, Patches: map[string]api.Patch{}}
	want := []received{
		{Parts: map[string]int{"big": len(was), "small": 4}, Patches: map[string]api.Patch{}},
		{Parts: map[string]int{"big": 5, "small": 4}, Patches: map[string]api.Patch{"big": {
			BaseDigest: first.Manifest.Files[0].Digest, BaseSize: int64(len(was)), Offset: int64(offset), Length: 12}}},
		whole, whole,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("applies (-want +got):\n%s", diff)
	}
}

// FuzzDifference: the part in place of its range makes the content.
func FuzzDifference(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		text := func() string { return strings.Repeat("abc"[:1+r.IntN(3)], r.IntN(3000)) }
		base := text() + text() + text()
		content := base[:r.IntN(len(base)+1)] + text()[:r.IntN(2)*r.IntN(2)] + base[r.IntN(len(base)+1):]
		p, part := difference([]byte(base), []byte(content))
		file := api.Declare(api.FileSpec{Path: api.ConfigPath, Kind: api.KindConfig}, []byte(content))
		if p.BaseSize != int64(len(base)) || p.PartSize(file.Size) != int64(len(part)) {
			t.Fatalf("seed %d: %+v with %d bytes", seed, p, len(part))
		}
		if got := base[:p.Offset] + string(part) + base[p.Offset+p.Length:]; got != content {
			t.Errorf("seed %d: %d bytes became %d, want %d", seed, len(base), len(got), len(content))
		}
	})
}

// TestContentsAreBounded: what was sent last is what is kept.
func TestContentsAreBounded(t *testing.T) {
	var c contents
	var ids []api.FileState
	for i := range 6 {
		content := bytes.Repeat([]byte{byte(i)}, maxKnownBytes/4)
		request := requestOf(map[string][]byte{"x": content, "small": {byte(i)}})
		ids = append(ids, request.Manifest.Files[1].State())
		c.remember(request.Manifest.Files, request.Parts)
		c.remember(request.Manifest.Files, request.Parts)
	}
	for i, id := range ids {
		if kept := c.of(id) != nil; kept != (i >= 2) {
			t.Errorf("content %d is kept: %t", i, kept)
		}
	}
	if len(c.known) != 4 || len(c.order) != 4 || c.size != maxKnownBytes {
		t.Errorf("%d contents of %d bytes are kept", len(c.known), c.size)
	}
}
