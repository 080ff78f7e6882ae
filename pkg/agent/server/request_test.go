package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
)

// part is one piece of a hand-made body.
type part struct{ disposition, content string }

func filePart(path, content string) part {
	return part{multipart.FileContentDisposition(api.PartFile, path), content}
}

// post sends a body the client would never send, past TLS.
func (p *pod) post(contentType string, body io.Reader) (int, string) {
	p.t.Helper()
	return p.send(http.MethodPost, api.RouteApply, http.Header{"Content-Type": {contentType}}, body)
}

// send makes any request, past TLS, addressed to the pod unless the header says
// otherwise.
func (p *pod) send(method, route string, header http.Header, body io.Reader) (int, string) {
	p.t.Helper()
	h := newHandlers(p.agent)
	if p.patience > 0 {
		h.patience = p.patience
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+api.RouteState, h.addressed(h.state))
	mux.HandleFunc("POST "+api.RouteApply, h.addressed(h.apply))
	mux.HandleFunc("PUT "+api.RoutePlan, h.addressed(h.plan))
	mux.HandleFunc("PUT "+api.RouteEpoch, h.addressed(h.epoch))
	server := httptest.NewServer(mux)
	defer server.Close()
	request, err := http.NewRequestWithContext(p.t.Context(), method, server.URL+route, body)
	must(p.t, err)
	request.Header.Set(api.HeaderPodUID, testPodUID)
	request.Header.Set(api.HeaderTemplateUID, testTemplateUID)
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := http.DefaultClient.Do(request)
	must(p.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	must(p.t, err)
	return response.StatusCode, string(answer)
}

func encodeParts(t *testing.T, parts ...part) (string, *bytes.Buffer) {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, piece := range parts {
		w, err := form.CreatePart(map[string][]string{"Content-Disposition": {piece.disposition}})
		must(t, err)
		_, err = io.WriteString(w, piece.content)
		must(t, err)
	}
	must(t, form.Close())
	return form.FormDataContentType(), &body
}

func manifestPart(t *testing.T, m api.Manifest) part {
	t.Helper()
	encoded, err := json.Marshal(m)
	must(t, err)
	return part{`form-data; name="manifest"`, string(encoded)}
}

// badRequest is a body and the refusal it has to get.
type badRequest struct {
	name    string
	parts   []part
	stage   string
	message string
}

// hostile lists bodies that break the contract in one place each, around a
// manifest that would be good.
func hostile(t *testing.T, good client.ApplyRequest) []badRequest {
	t.Helper()
	manifest := manifestPart(t, good.Manifest)
	plan := part{`form-data; name="plan"`, string(good.Plan)}
	config := filePart(api.ConfigPath, string(good.Parts[api.ConfigPath]))
	withPath := func(path string) []part {
		m := good.Manifest
		m.Files = append([]api.File{api.Declare(api.FileSpec{Path: path, Kind: api.KindMap}, []byte("x"))}, m.Files...)
		return []part{manifestPart(t, m), plan, config, filePart("a.map", "a b\n"), filePart(path, "x")}
	}
	tooMany := good.Manifest
	for i := range api.MaxFiles {
		tooMany.Files = append(tooMany.Files, api.Declare(api.FileSpec{Path: fmt.Sprint("f", i), Kind: api.KindMap}, nil))
	}
	return []badRequest{
		{"a path that leaves the folder", withPath("../x"), api.StageManifest, `".." element`},
		{"a path that leaves it from below", withPath("a/../../x"), api.StageManifest, `".." element`},
		{"an absolute path", withPath("/etc/x"), api.StageManifest, "must not be absolute"},
		{"a path with NUL", withPath("a\x00b"), api.StageManifest, "no control character"},
		{"an empty path", withPath(""), api.StageManifest, "must not be empty"},
		{"an empty element", withPath("a//b"), api.StageManifest, "no empty"},
		{"a duplicate", withPath("a.map"), api.StageManifest, "listed twice"},
		{"a path that differs in case", withPath("A.map"), api.StageManifest, "differ only in case"},
		{"a folder that is a file", withPath("a.map/b"), api.StageManifest, "which is a file"},
		{"256 bytes of path", withPath(strings.Repeat("x", 256)), api.StageManifest, "the limit is 255"},
		{"4,098 files", []part{manifestPart(t, tooMany)}, api.StageManifest, "exceed the limit of 4096"},
		{"an unknown member", []part{{manifest.disposition, `{"nobody_knows":[]}`}}, api.StageManifest, "unknown field"},
		{"a member given twice", []part{{manifest.disposition, strings.Replace(manifest.content, "{", `{"mode":"reload",`, 1)}}, api.StageManifest, "given twice"},
		{"a member in capitals", []part{{manifest.disposition, strings.Replace(manifest.content, `"mode"`, `"MODE"`, 1)}}, api.StageManifest, "lower-case"},
		{"a member that only folds to another", []part{{manifest.disposition, strings.Replace(manifest.content, `"files"`, `"fileſ"`, 1)}}, api.StageManifest, "lower-case"},
		{"a file's member given twice", []part{{manifest.disposition, strings.Replace(manifest.content, `"path":`, `"path":"x","path":`, 1)}}, api.StageManifest, "given twice"},
		{"JSON without an end", []part{{manifest.disposition, manifest.content[:len(manifest.content)-1]}}, api.StageManifest, "ends early"},
		{"JSON nested without an end", []part{{manifest.disposition, strings.Repeat("[", 1<<20)}}, api.StageManifest, "nested deeper"},
		{"a manifest that is too large", []part{{manifest.disposition, strings.Repeat(" ", api.MaxManifestBytes+1)}}, api.StageManifest, "exceeds"},
		{"a plan that is too large", []part{manifest, {plan.disposition, strings.Repeat("x", api.MaxPlanBytes+1)}}, api.StageParts, "exceeds"},
		{"a plan sent twice", []part{manifest, plan, plan}, api.StageParts, "not to be sent"},
		{"files with a revert", []part{{manifest.disposition, strings.Replace(manifest.content, `"auto"`, `"revert_lkg"`, 1)}}, api.StageManifest, "must be empty"},
		{"a phase that is none", []part{{manifest.disposition, strings.Replace(manifest.content, `"files"`, `"expected_phase":"idle","files"`, 1)}}, api.StageManifest, "is not a phase"},
		{"a previous plan without its proof", []part{{manifest.disposition, strings.Replace(manifest.content, `"expected_prev_plan_proof":"`, `"expected_prev_plan_proof":"","plan_id":"`, 1)}}, api.StageManifest, "given twice"},
		{"a negative size", []part{{manifest.disposition, strings.Replace(manifest.content, `"size":`, `"size":-`, 1)}}, api.StageManifest, "must be between"},
		{"a filename given twice", []part{manifest, {`form-data; name="file"; filename="a.map"; filename="haproxy.cfg"`, "a b\n"}}, api.StageParts, "without a readable disposition"},
		{"a sent path in other letters", []part{manifest, filePart("A.map", "a b\n")}, api.StageParts, "not in the manifest"},
		{"a sent path that leaves the folder", []part{manifest, filePart("../a.map", "a b\n")}, api.StageParts, "not in the manifest"},
		{"a backslash", withPath(`a\..\x`), api.StageManifest, "no backslash"},
		{"bytes that are no text", withPath("a\xff"), api.StageParts, "not in the manifest"},
		{"two manifests in one", []part{{manifest.disposition, manifest.content + "{}"}}, api.StageManifest, "more follows"},
		{"a second manifest", []part{manifest, manifest}, api.StageParts, "no filename"},
		{"no manifest first", []part{plan, manifest}, api.StageRequest, "the first part"},
		{"a file outside the manifest", []part{manifest, filePart("b.map", "")}, api.StageParts, "not in the manifest"},
		{"a file sent twice", []part{manifest, config, config}, api.StageParts, "sent twice"},
		{"a file of another content", []part{manifest, filePart("a.map", "a c\n")}, api.StageParts, "declared as"},
		{"a file that is too long", []part{manifest, filePart("a.map", "a b\nmore")}, api.StageParts, "declared as"},
		{"a plan of another proof", []part{manifest, {plan.disposition, "x"}}, api.StageParts, "declared is"},
		{"no plan", []part{manifest, config, filePart("a.map", "a b\n")}, api.StageParts, "plan part is missing"},
	}
}

// TestBadRequestsChangeNothing: each gets a precise refusal, and the pod, its
// journal and its folder stay as they were.
func TestBadRequestsChangeNothing(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.output("one"))
	good := p.request(p.output("two").with("a.map", "a b\n"))
	before, files := p.state(true), p.listing()
	for _, tc := range hostile(t, good) {
		t.Run(tc.name, func(t *testing.T) {
			contentType, body := encodeParts(t, tc.parts...)
			status, answer := p.post(contentType, body)
			var detail api.ErrorDetail
			must(t, json.Unmarshal([]byte(answer), &detail))
			if status != http.StatusBadRequest || detail.Stage != tc.stage || !strings.Contains(detail.Message, tc.message) {
				t.Errorf("status %d, %+v; want stage %s and %q", status, detail, tc.stage, tc.message)
			}
			if diff := cmp.Diff(files, p.listing()); diff != "" {
				t.Errorf("files changed (-before +after):\n%s", diff)
			}
		})
	}
	t.Run("a body that is cut", func(t *testing.T) {
		contentType, body := encodeParts(t, manifestPart(t, good.Manifest), filePart("a.map", "a b\n"))
		status, answer := p.post(contentType, io.LimitReader(body, int64(body.Len()-20)))
		if status != http.StatusBadRequest {
			t.Errorf("status %d, %s", status, answer)
		}
	})
	t.Run("a body that is too large", func(t *testing.T) {
		contentType, body := encodeParts(t, manifestPart(t, good.Manifest), part{`form-data; name="plan"`, strings.Repeat("x", api.MaxApplyBytes)})
		// The rest waits for the answer: whoever goes on writing to a server
		// that has closed may lose what it said.
		rest, more := io.Pipe()
		defer more.Close()
		start := io.LimitReader(body, 2*api.MaxPlanBytes)
		if status, answer := p.post(contentType, io.MultiReader(start, rest)); status != http.StatusBadRequest {
			t.Errorf("status %d, %s", status, answer)
		}
	})
	if diff := cmp.Diff(before, p.state(true)); diff != "" {
		t.Errorf("state (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(files, p.listing()); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

// TestMissingPartsProtocol: what the agent lacks is listed, and exactly that
// with the same manifest makes the set.
func TestMissingPartsProtocol(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.mustLoad(p.output("one").with("keep.map", "k v\n"))
	o := p.output("two").with("keep.map", "k v\n").with("z.map", "z\n").with("b.map", "b\n")
	request := p.request(o)
	contentType, body := encodeParts(t, manifestPart(t, request.Manifest),
		part{`form-data; name="plan"`, string(request.Plan)}, filePart("z.map", "z\n"))
	status, answer := p.post(contentType, body)
	if want := `{"missing":["b.map","haproxy.cfg","z.map"]}`; status != http.StatusConflict || strings.TrimSpace(answer) != want {
		t.Errorf("status %d %s, want 409 %s", status, answer, want)
	}
	// A client that believes in a stale state sends too little at first.
	request.Held["b.map"] = request.Manifest.Files[0].State()
	result, err := p.client.Apply(t.Context(), p.target, request)
	if err != nil || !result.OK {
		t.Fatalf("apply: %+v, %v", result, err)
	}
	// A file whose content is not at hand cannot be resent.
	next := p.request(o.with("c.map", "c\n"))
	delete(next.Parts, "c.map")
	_, err = p.client.Apply(t.Context(), p.target, next)
	var missing *client.MissingError
	if !errors.As(err, &missing) || !cmp.Equal([]string{"c.map"}, missing.Paths) {
		t.Errorf("apply without a content: %v", err)
	}
}

// TestFencing: who may not act is told so by reason, and a pod that only heard
// of a term stays a bootstrap pod.
func TestFencing(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	ctx := t.Context()
	if floor, err := p.client.Announce(ctx, p.target, 5); err != nil || floor.Floor != 5 {
		t.Fatalf("announce: %+v, %v", floor, err)
	}
	if state := p.state(true); !state.IsBootstrap() || state.EpochFloor != 5 || state.TemplateUID != "" {
		t.Errorf("after an announcement: %+v", state)
	}
	_, err := p.client.Announce(ctx, p.target, 4)
	wantConflict(t, err, api.ReasonStaleEpoch)
	_, err = p.client.Announce(ctx, p.target, 5+api.MaxEpochJump+1)
	wantConflict(t, err, api.ReasonEpochJump)

	apply := func(o output, token api.Token, change func(*client.Target, *api.Manifest)) error {
		request, target := p.request(o), p.target
		request.Manifest.Token = token
		if change != nil {
			change(&target, &request.Manifest)
		}
		_, err := p.client.Apply(ctx, target, request)
		return err
	}
	wantConflict(t, apply(p.output("x"), api.Token{LeaderEpoch: 4, RenderSeq: 9}, nil), api.ReasonStaleEpoch)
	wantConflict(t, apply(p.output("x"), api.Token{LeaderEpoch: 2_000_000}, nil), api.ReasonEpochJump)
	wantConflict(t, apply(p.output("x"), api.Token{LeaderEpoch: 5}, func(to *client.Target, _ *api.Manifest) { to.PodUID = "other" }), api.ReasonWrongPod)
	must(t, apply(p.output("x"), api.Token{LeaderEpoch: 5, RenderSeq: 2}, nil))
	wantConflict(t, apply(p.output("y"), api.Token{LeaderEpoch: 5, RenderSeq: 1}, nil), api.ReasonStaleEpoch)
	wantConflict(t, apply(p.output("y"), api.Token{LeaderEpoch: 5, RenderSeq: 2}, nil), api.ReasonTokenReused)
	wantConflict(t, apply(p.output("y"), api.Token{LeaderEpoch: 5, RenderSeq: 3},
		func(to *client.Target, _ *api.Manifest) { to.TemplateUID = "other" }), api.ReasonWrongTemplate)
	wantConflict(t, apply(p.output("y"), api.Token{LeaderEpoch: 5, RenderSeq: 3},
		func(_ *client.Target, m *api.Manifest) { m.ExpectedPrevPlanProof = api.PlanProof(nil) }), api.ReasonPrevMismatch)
	wantConflict(t, apply(p.output("y"), api.Token{LeaderEpoch: 5, RenderSeq: 3},
		func(_ *client.Target, m *api.Manifest) { m.ExpectedPrevToken.RenderSeq++ }), api.ReasonPrevMismatch)
	wantConflict(t, apply(p.output("y"), api.Token{LeaderEpoch: 5, RenderSeq: 3},
		func(_ *client.Target, m *api.Manifest) { m.ExpectedPhase = api.PhaseBootstrap }), api.ReasonPhaseMismatch)
	if p.served() != "x" {
		t.Errorf("frontend serves %q", p.served())
	}
}
