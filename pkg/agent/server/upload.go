package server

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// uploadTimeout bounds how long one body may take, however slowly it comes.
const uploadTimeout = 60 * time.Second

// maxParts bounds the parts of one body: every file, manifest and plan.
const maxParts = api.MaxFiles + 2

// receiver reads one apply. It asks admit about the manifest before it writes
// the first byte.
type receiver struct {
	agent *agent
	admit func(*api.Manifest) error
	form  *multipart.Reader
	up    *upload
}

// receive reads the whole body. The caller owns the staging folder that the
// upload holds; after an error there is none.
func (r *receiver) receive() error {
	manifest, err := r.readManifest()
	if err != nil {
		return err
	}
	if err := r.admit(manifest); err != nil {
		return err
	}
	st, err := newStaging(r.agent.slots)
	if err != nil {
		return err
	}
	r.up.manifest, r.up.staging, r.up.patches = *manifest, st, takePatches(manifest)
	if err := r.readParts(); err != nil {
		return errors.Join(err, st.discard())
	}
	return nil
}

func (r *receiver) readManifest() (*api.Manifest, error) {
	part, err := r.form.NextRawPart()
	if err != nil {
		return nil, &requestError{stage: api.StageRequest, err: fmt.Errorf("reading the first part: %w", err)}
	}
	if part.FormName() != api.PartManifest {
		return nil, &requestError{stage: api.StageRequest, err: fmt.Errorf("the first part is %q, want %q", part.FormName(), api.PartManifest)}
	}
	raw, err := readPart(part, api.MaxManifestBytes)
	if err != nil {
		return nil, &requestError{stage: api.StageManifest, err: err}
	}
	m, err := decodeManifest(raw)
	if err != nil {
		return nil, &requestError{stage: api.StageManifest, err: err}
	}
	return m, nil
}

// decodeManifest refuses members it does not know: one of them may be a
// precondition that this agent would silently skip.
func decodeManifest(raw []byte) (*api.Manifest, error) {
	var m api.Manifest
	if err := decodeStrict(raw, &m); err != nil {
		return nil, err
	}
	return &m, m.Validate()
}

func (r *receiver) readParts() error {
	declared := (&set{Files: r.up.manifest.Files}).byPath()
	for count := 1; ; count++ {
		part, err := r.form.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &requestError{stage: api.StageRequest, err: fmt.Errorf("reading part %d: %w", count+1, err)}
		}
		if count >= maxParts {
			return &requestError{stage: api.StageParts, err: fmt.Errorf("more than %d parts", maxParts)}
		}
		if err := r.readPart(part, declared); err != nil {
			return err
		}
	}
}

func (r *receiver) readPart(part *multipart.Part, declared map[string]api.File) error {
	path, isFile, err := partPath(part)
	if err != nil {
		return &requestError{stage: api.StageParts, err: err}
	}
	if !isFile {
		return r.readPlan(part)
	}
	file, ok := declared[path]
	if !ok {
		return &requestError{stage: api.StageParts, err: fmt.Errorf("file %q is not in the manifest", path)}
	}
	patch := r.up.patches[path]
	if r.up.staging.have[path] || patch != nil && patch.sent {
		return &requestError{stage: api.StageParts, err: fmt.Errorf("file %q is sent twice", path)}
	}
	source := &sourceReader{reader: part}
	if patch != nil {
		return patch.read(path, source)
	}
	if err := r.up.staging.write(file, source); err != nil {
		var mismatch *contentError
		if source.err != nil || errors.As(err, &mismatch) {
			return &requestError{stage: api.StageParts, err: err}
		}
		return err
	}
	return nil
}

func (r *receiver) readPlan(part *multipart.Part) error {
	if name := part.FormName(); name != api.PartPlan {
		return &requestError{stage: api.StageParts, err: fmt.Errorf("part %q has no filename and is not %q", name, api.PartPlan)}
	}
	if r.up.plan != nil || r.up.manifest.Mode == api.ModeRevertLKG {
		return &requestError{stage: api.StageParts, err: errors.New("a plan is sent that was not to be sent")}
	}
	plan, err := readPart(part, api.MaxPlanBytes)
	if err != nil {
		return &requestError{stage: api.StageParts, err: fmt.Errorf("plan: %w", err)}
	}
	if proof := api.PlanProof(plan); proof != r.up.manifest.PlanProof {
		return &requestError{stage: api.StageParts,
			err: fmt.Errorf("the plan has proof %s, declared is %s", proof, r.up.manifest.PlanProof)}
	}
	r.up.plan = plan
	return nil
}

// partPath reads the filename as it was sent. Part.FileName would drop folders.
func partPath(part *multipart.Part) (string, bool, error) {
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return "", false, fmt.Errorf("part without a readable disposition: %w", err)
	}
	path, ok := params["filename"]
	return path, ok, nil
}

func readPart(part io.Reader, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(part, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("exceeds %d bytes", limit)
	}
	return content, nil
}

// sourceReader remembers that reading failed, to tell a sender that stopped
// from a disk that is full.
type sourceReader struct {
	reader io.Reader
	err    error
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// formOf opens the body of an apply, bounded in size and time.
func formOf(w http.ResponseWriter, r *http.Request, patience time.Duration) (*multipart.Reader, error) {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, fmt.Errorf("bounding the upload: %w", err)
	}
	if err := control.SetWriteDeadline(time.Now().Add(patience + 2*reloadWait + askTimeout)); err != nil {
		return nil, fmt.Errorf("bounding the answer: %w", err)
	}
	r.Body = http.MaxBytesReader(w, r.Body, api.MaxApplyBytes)
	form, err := r.MultipartReader()
	if err != nil {
		return nil, &requestError{stage: api.StageRequest, err: err}
	}
	return form, nil
}
