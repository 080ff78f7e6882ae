package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// body is a request body in pieces that are sent one after another, so that
// file contents shared by a whole fleet are never copied per pod.
type body [][]byte

func (b body) size() int64 {
	var total int64
	for _, piece := range b {
		total += int64(len(piece))
	}
	return total
}

func (b body) reader() io.ReadCloser {
	readers := make([]io.Reader, 0, len(b))
	for _, piece := range b {
		readers = append(readers, bytes.NewReader(piece))
	}
	return io.NopCloser(io.MultiReader(readers...))
}

func jsonBody(value any) (body, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding request: %w", err)
	}
	return body{encoded}, nil
}

// call is one request to one agent.
type call struct {
	target      Target
	method      string
	route       string
	query       url.Values
	body        body
	contentType string
}

func (c call) request(ctx context.Context) (*http.Request, error) {
	address := url.URL{Scheme: "https", Host: c.target.Address, Path: c.route, RawQuery: c.query.Encode()}
	request, err := http.NewRequestWithContext(ctx, c.method, address.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set(api.HeaderPodUID, c.target.PodUID)
	request.Header.Set(api.HeaderTemplateUID, c.target.TemplateUID)
	if c.body != nil {
		request.Header.Set("Content-Type", c.contentType)
		request.ContentLength = c.body.size()
		request.Body = c.body.reader()
		// With it, net/http sends a POST anew only if not one byte of it went
		// out, on a kept connection that turned out to be closed.
		request.GetBody = func() (io.ReadCloser, error) { return c.body.reader(), nil }
	}
	return request, nil
}

// tries bounds how often one request is sent, and says how long to wait between.
var tries = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 3}

// do sends one request and decodes its answer into result, or into the error
// type that the status asks for. It sends again what is safe to send again.
func (c *Client) do(ctx context.Context, call call, result any) error {
	var last error
	ended := wait.ExponentialBackoffWithContext(ctx, tries, func(ctx context.Context) (bool, error) {
		lost, err := c.once(ctx, call, result)
		last = err
		again := lost && call.method != http.MethodPost || isBusy(err)
		return !again, nil
	})
	if last == nil {
		return ended
	}
	return last
}

// isBusy reports that an agent dropped a request unread.
func isBusy(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable && refused.Detail.Stage == api.StageBusy
}

// once is one try. It reports that the connection was lost on the way, with
// which anything may have happened at the other end.
func (c *Client) once(ctx context.Context, call call, result any) (lost bool, err error) {
	sent := false
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent = true },
	})
	request, err := call.request(traced)
	if err != nil {
		return false, fmt.Errorf("building request for pod %s: %w", call.target.PodName, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return sent && !errors.Is(err, errRedirect), call.unanswered(sent, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, api.MaxAnswerBytes+1))
	if err != nil {
		return true, call.unanswered(true, err)
	}
	if len(answer) > api.MaxAnswerBytes {
		return false, call.unanswered(true, fmt.Errorf("answer exceeds %d bytes", api.MaxAnswerBytes))
	}
	if response.StatusCode != http.StatusOK {
		return false, call.refusal(response.StatusCode, answer)
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return false, call.unanswered(true, fmt.Errorf("decoding answer: %w", err))
	}
	return false, nil
}

func (c call) unanswered(sent bool, err error) error {
	if sent && c.method == http.MethodPost {
		return &UnansweredError{Pod: c.target.PodName, Err: err}
	}
	return fmt.Errorf("%s %s of pod %s at %s: %w", c.method, c.route, c.target.PodName, c.target.Address, err)
}

func (c call) refusal(status int, answer []byte) error {
	if status == http.StatusConflict {
		var either struct {
			api.Conflict
			api.Missing
		}
		if err := json.Unmarshal(answer, &either); err == nil {
			switch {
			case len(either.Missing.Missing) > 0:
				return &MissingError{Pod: c.target.PodName, Paths: either.Missing.Missing}
			case either.Reason != "":
				return &ConflictError{Pod: c.target.PodName, Conflict: either.Conflict}
			}
		}
	}
	refused := &RefusedError{Pod: c.target.PodName, Status: status}
	if err := json.Unmarshal(answer, &refused.Detail); err != nil {
		refused.Detail.Message = http.StatusText(status)
	}
	return refused
}
