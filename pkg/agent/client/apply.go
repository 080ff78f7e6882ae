package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// ApplyRequest is one output for one pod.
type ApplyRequest struct {
	Manifest api.Manifest
	// Plan is the plan blob. It may be left out when the pod stores it already,
	// and must be with api.ModeRevertLKG.
	Plan []byte
	// Parts are the contents of the manifest's files by path. They are only
	// read, so one map serves a whole fleet.
	Parts map[string][]byte
	// Held is what the pod's state says it has. Files that equal it are not
	// sent at first; a nil map sends all.
	Held map[string]api.FileState
	// Features are those of the pod's state.
	Features []string
	// Before is the state that the request was made from. With it, an apply that
	// was not answered is resolved by reading the state again.
	Before *api.State
}

// Apply hands the output to the pod and waits for what became of it. A refusal
// by HAProxy is a Result that is not OK, everything else an error. When the
// answer is lost, the pod's state is asked for it; an UnansweredError says that
// it could not tell.
func (c *Client) Apply(ctx context.Context, target Target, request ApplyRequest) (*api.Result, error) {
	result, err := c.applyOnce(ctx, target, request)
	var unanswered *UnansweredError
	if errors.As(err, &unanswered) && request.Before != nil {
		return c.resolve(ctx, target, request, unanswered)
	}
	return result, err
}

// applyOnce sends the output, and what the pod lacks of it.
func (c *Client) applyOnce(ctx context.Context, target Target, request ApplyRequest) (*api.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.ApplyTimeout)
	defer cancel()
	var paths []string
	for _, f := range request.Manifest.Files {
		if held, ok := request.Held[f.Path]; !ok || held != f.State() {
			paths = append(paths, f.Path)
		}
	}
	c.contents.remember(request.Manifest.Files, request.Parts)
	result, err := c.apply(ctx, target, c.contents.patched(request), paths)
	var missing *MissingError
	if !errors.As(err, &missing) {
		return result, err
	}
	for _, path := range missing.Paths {
		if _, ok := request.Parts[path]; !ok {
			return nil, err
		}
	}
	// Whole this time: a base that is not there would be missing again. Asked
	// twice for the same would mean that the agent cannot keep what it
	// is sent; the second answer stands.
	return c.apply(ctx, target, request, missing.Paths)
}

func (c *Client) apply(ctx context.Context, target Target, request ApplyRequest, paths []string) (*api.Result, error) {
	body, contentType, err := encode(request, paths)
	if err != nil {
		return nil, fmt.Errorf("encoding apply for pod %s: %w", target.PodName, err)
	}
	var result api.Result
	call := call{target: target, method: http.MethodPost, route: api.RouteApply, body: body, contentType: contentType}
	if err := c.do(ctx, call, &result); err != nil {
		return nil, err
	}
	return &result, nil
}

// encode lays out the parts in the order the agent demands. Contents enter the
// body by reference.
func encode(request ApplyRequest, paths []string) (body, string, error) {
	manifest, err := json.Marshal(request.Manifest)
	if err != nil {
		return nil, "", err
	}
	var frame bytes.Buffer
	var out body
	form := multipart.NewWriter(&frame)
	add := func(disposition string, content []byte) error {
		header := textproto.MIMEHeader{}
		header.Set("Content-Disposition", disposition)
		header.Set("Content-Type", "application/octet-stream")
		if _, err := form.CreatePart(header); err != nil {
			return err
		}
		out = append(out, bytes.Clone(frame.Bytes()), content)
		frame.Reset()
		return nil
	}
	if err := add(fmt.Sprintf("form-data; name=%q", api.PartManifest), manifest); err != nil {
		return nil, "", err
	}
	if request.Plan != nil {
		if err := add(fmt.Sprintf("form-data; name=%q", api.PartPlan), request.Plan); err != nil {
			return nil, "", err
		}
	}
	for _, path := range paths {
		content, ok := request.Parts[path]
		if !ok {
			// The agent may hold it; if it does not, it names it.
			continue
		}
		if err := add(multipart.FileContentDisposition(api.PartFile, path), content); err != nil {
			return nil, "", err
		}
	}
	if err := form.Close(); err != nil {
		return nil, "", err
	}
	return append(out, bytes.Clone(frame.Bytes())), form.FormDataContentType(), nil
}
