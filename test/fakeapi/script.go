package fakeapi

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Step is one request of the script. In path and body, {ns} stands for the
// namespace, and {NAME.uid} and {NAME.rv} for what the step that saved NAME
// was answered.
type Step struct {
	// Name says what the step shows.
	Name         string
	Method, Path string
	// Type is the body's media type, application/json if empty.
	Type string
	Body string
	// Agent is the user agent, which names the field manager; "script" if empty.
	Agent string
	// Save keeps the answered object's UID and version under a name.
	Save string
	// Events is how many events of a watch are read.
	Events int
	// Until repeats the request until this code is answered: for what happens
	// behind it.
	Until int
	// Drop names fields that are not compared, at any depth: content of great
	// size, and what the package comment lists as differing.
	Drop []string
	// OnlyStatus compares code and reason, not the text.
	OnlyStatus bool
}

// Result is a step's answer, free of what no two servers share.
type Result struct {
	Step   string `json:"step"`
	Code   int    `json:"code"`
	Reason string `json:"reason,omitempty"`
	// Body is the JSON answer, Text an answer of another form.
	Body any    `json:"body,omitempty"`
	Text string `json:"text,omitempty"`
}

// untilLimit bounds the wait for a code.
const untilLimit = 30 * time.Second

// Run sends the script to the server of config and returns its answers. The
// namespace must exist and be empty.
func Run(ctx context.Context, config *rest.Config, namespace string) ([]Result, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	r := &runner{client: client, base: config.Host, namespace: namespace, saved: map[string]string{}, uids: map[string]string{}, versions: map[string]string{}}
	var results []Result
	for _, step := range Script() {
		result, err := r.run(ctx, step)
		if err != nil {
			return results, fmt.Errorf("step %q: %w", step.Name, err)
		}
		results = append(results, result)
	}
	return results, nil
}

type runner struct {
	client          *http.Client
	base, namespace string
	saved           map[string]string
	// uids and versions number what was met, in the order of meeting.
	uids, versions map[string]string
}

var placeholder = regexp.MustCompile(`\{[a-z0-9]+(\.(uid|rv))?\}`)

func (r *runner) fill(text string) (string, error) {
	var missing error
	filled := placeholder.ReplaceAllStringFunc(text, func(found string) string {
		name := strings.Trim(found, "{}")
		if name == "ns" {
			return r.namespace
		}
		value, ok := r.saved[name]
		if !ok {
			missing = fmt.Errorf("nothing is saved as %s", name)
		}
		return value
	})
	return filled, missing
}

func (r *runner) run(ctx context.Context, step Step) (Result, error) {
	path, err := r.fill(step.Path)
	if err != nil {
		return Result{}, err
	}
	body, err := r.fill(step.Body)
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, untilLimit)
	defer cancel()
	for {
		code, answered, err := r.send(ctx, step, path, body)
		if err != nil {
			return Result{}, err
		}
		if step.Until == 0 || code == step.Until {
			return r.result(step, code, answered), nil
		}
		timer := time.NewTimer(50 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return Result{}, fmt.Errorf("still %d, not %d: %w", code, step.Until, ctx.Err())
		case <-timer.C:
		}
	}
}

func (r *runner) send(ctx context.Context, step Step, path, body string) (int, []byte, error) {
	target, err := url.Parse(r.base + path)
	if err != nil {
		return 0, nil, err
	}
	target.RawQuery = target.Query().Encode()
	req, err := http.NewRequestWithContext(ctx, step.Method, target.String(), strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	agent, mediaType := step.Agent, step.Type
	if agent == "" {
		agent = "script"
	}
	if mediaType == "" {
		mediaType = jsonType
	}
	req.Header.Set("User-Agent", agent+"/v1")
	req.Header.Set("Accept", jsonType)
	if body != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	if step.Events > 0 && resp.StatusCode == http.StatusOK {
		lines, err := readLines(resp.Body, step.Events)
		return resp.StatusCode, lines, err
	}
	answered, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answered, err
}

// readLines makes a JSON list of the first events of a watch.
func readLines(body io.Reader, events int) ([]byte, error) {
	reader := bufio.NewReader(body)
	var lines [][]byte
	for range events {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("reading event %d of %d: %w", len(lines)+1, events, err)
		}
		lines = append(lines, bytes.TrimSpace(line))
	}
	return fmt.Appendf(nil, "[%s]", bytes.Join(lines, []byte(","))), nil
}
