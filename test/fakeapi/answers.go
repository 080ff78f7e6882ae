package fakeapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

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
			if _, object := v["uid"].(string); object && key == "resourceVersion" {
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
