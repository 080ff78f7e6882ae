package fakeapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
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

func (r *runner) result(step Step, code int, answered []byte) Result {
	result := Result{Step: step.Name, Code: code}
	var body any
	if err := json.Unmarshal(answered, &body); err != nil {
		result.Text = string(answered)
		return result
	}
	if tree, ok := body.(map[string]any); ok {
		result.Reason, _ = tree["reason"].(string)
		r.save(step.Save, tree)
	}
	r.learn(body)
	if !step.OnlyStatus {
		result.Body = r.normal(body, "", step.Drop)
	}
	return result
}

func (r *runner) save(name string, tree map[string]any) {
	metadata, _ := tree["metadata"].(map[string]any)
	// A refusal has no UID, and saves nothing.
	if name == "" || metadata["uid"] == nil {
		return
	}
	r.saved[name+".uid"], _ = metadata["uid"].(string)
	r.saved[name+".rv"], _ = metadata["resourceVersion"].(string)
	r.saved[name], _ = metadata["name"].(string)
}

// learn numbers the UIDs and the objects' versions of an answer.
func (r *runner) learn(value any) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			r.learn(item)
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			text, _ := v[key].(string)
			if key == "uid" && text != "" {
				number(r.uids, text, "uid")
			}
			if _, object := v["uid"]; object && key == "resourceVersion" {
				number(r.versions, text, "rv")
			}
			r.learn(v[key])
		}
	}
}

func number(met map[string]string, value, word string) {
	if _, ok := met[value]; !ok {
		met[value] = fmt.Sprintf("%s-%d", word, len(met)+1)
	}
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// timeFields hold times of the servers' clocks.
var timeFields = []string{"creationTimestamp", "deletionTimestamp", "time"}

// normal replaces what differs from run to run.
func (r *runner) normal(value any, key string, drop []string) any {
	switch v := value.(type) {
	case []any:
		list := make([]any, 0, len(v))
		for _, item := range v {
			list = append(list, r.normal(item, key, drop))
		}
		return list
	case map[string]any:
		tree := map[string]any{}
		for k, item := range v {
			if !slices.Contains(drop, k) {
				tree[r.normalText(k)] = r.normal(item, k, drop)
			}
		}
		sortUnordered(tree)
		return tree
	case string:
		switch {
		case slices.Contains(timeFields, key) && v != "":
			return "a time"
		case key == "resourceVersion" && v != "":
			if known, ok := r.versions[v]; ok {
				return known
			}
			return "a version"
		}
		return r.normalText(v)
	}
	return value
}

// sortUnordered undoes two orders that mean nothing: managers are sorted by
// whole seconds, and discovery by chance.
func sortUnordered(tree map[string]any) {
	for _, field := range []string{"managedFields", "resources"} {
		items, _ := tree[field].([]any)
		slices.SortFunc(items, func(a, b any) int { return bytes.Compare(mustEncode(a), mustEncode(b)) })
	}
}

var (
	uidText     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	versionText = regexp.MustCompile(`\b\d+\b`)
	generated   = regexp.MustCompile(`\bgen-[a-z0-9]{5}\b`)
	versionArea = regexp.MustCompile(`(?i)resource ?version|message larger|current:`)
)

func (r *runner) normalText(text string) string {
	text = strings.ReplaceAll(text, r.namespace, "{ns}")
	text = generated.ReplaceAllString(text, "gen-xxxxx")
	text = uidText.ReplaceAllStringFunc(text, func(uid string) string {
		if known, ok := r.uids[uid]; ok {
			return known
		}
		return uid
	})
	if !versionArea.MatchString(text) {
		return text
	}
	return versionText.ReplaceAllStringFunc(text, func(version string) string {
		if known, ok := r.versions[version]; ok {
			return known
		}
		if len(version) > 2 {
			return "N"
		}
		return version
	})
}
