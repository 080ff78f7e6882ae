package inspect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// untold are fields of which no change is reported, by kind, because recovery
// does not depend on them: what is not listed here must be.
var untold = []string{
	"* metadata.annotations.haproxy-haptic.org/auxiliary-claim",
	"* metadata.creationTimestamp",
	"* metadata.ownerReferences.0.blockOwnerDeletion",
	"* metadata.resourceVersion",
	// Labels of outputs serve collection: a note.
	"HAProxyCfg metadata.labels.haproxy-haptic.org/retained-for",
	"HAProxyCfg metadata.labels.haproxy-haptic.org/template-config",
	// Children are referenced by name; their UID is shown.
	"HAProxyMapFile metadata.uid", "HAProxyGeneralFile metadata.uid", "HAProxyCRTListFile metadata.uid", "Secret metadata.uid",
	// Base names of the path, which is compared as a whole.
	"HAProxyMapFile spec.mapName", "HAProxyCRTListFile spec.listName",
	// Where the configuration goes is no part of an output.
	"HAProxyCfg spec.path",
	// A receipt needs one of the two plan IDs, and any pod.
	"HAProxyCfg status.deployedToPods.0.runningPlanID", "HAProxyCfg status.deployedToPods.0.workerOpsPlanID",
	"HAProxyCfg status.deployedToPods.0.podName", "HAProxyCfg status.deployedToPods.0.podUID", "HAProxyCfg status.deployedToPods.0.podRuntimeID",
	// The ordinary output counts for its pointers only.
	"ordinary metadata.uid", "ordinary metadata.labels.haproxy-haptic.org/template-config",
	"ordinary spec.path", "ordinary spec.content", "ordinary spec.checksum",
	"ordinary status.deployedToPods.0.*",
	// Templates and Leases change what is intended, not what is verified.
	"HAProxyTemplateConfig spec.*", "HAProxyTemplateConfig status.*", "Lease *",
}

// leaf is one field of one object, found in decoded JSON.
type leaf struct {
	path string
	set  func(value any)
	old  any
}

func leaves(value any, path string, set func(any)) []leaf {
	var found []leaf
	join := func(key string) string { return strings.TrimPrefix(path+"."+key, ".") }
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			found = append(found, leaves(member, join(key), func(changed any) { v[key] = changed })...)
		}
	case []any:
		for i, item := range v {
			found = append(found, leaves(item, join(fmt.Sprint(i)), func(changed any) { v[i] = changed })...)
		}
	default:
		found = append(found, leaf{path, set, v})
	}
	return found
}

// tampered is another value of the same form.
func tampered(t *testing.T, l leaf, kind string) any {
	switch old := l.old.(type) {
	case bool:
		return !old
	case float64:
		return old + 1
	case string:
		if strings.HasSuffix(l.path, "creationTimestamp") || strings.HasSuffix(l.path, "acquireTime") {
			return strings.Replace(old, "2026", "2025", 1)
		}
		if kind == "Secret" && strings.HasPrefix(l.path, "data.") {
			raw, err := base64.StdEncoding.DecodeString(old)
			if err != nil {
				t.Fatal(err)
			}
			return base64.StdEncoding.EncodeToString(append([]byte("x"), raw...))
		}
		return "x" + old
	}
	t.Fatalf("%s is a %T", l.path, l.old)
	return nil
}

func isUntold(kind, path string) bool {
	for _, rule := range untold {
		ruleKind, rulePath, _ := strings.Cut(rule, " ")
		prefix, open := strings.CutSuffix(rulePath, "*")
		if (ruleKind == "*" || ruleKind == kind) && (path == rulePath || open && strings.HasPrefix(path, prefix)) {
			return true
		}
	}
	return false
}

// TestEveryTamperedFieldIsFound changes every field of every stored object, one
// at a time, and prints each report in all formats to see that none shows keys.
func TestEveryTamperedFieldIsFound(t *testing.T) {
	e := newExport(t)
	e.others = nil
	items := decoded(t, marshalJSON(t, e.stored()))
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	changes := 0
	for _, item := range items.([]any) {
		object := item.(map[string]any)
		kind := object["kind"].(string)
		if object["metadata"].(map[string]any)["name"] == e.ordinary.Name {
			kind = "ordinary"
		}
		for _, l := range leaves(item, "", nil) {
			if l.path == "apiVersion" || l.path == "kind" || l.path == "metadata.namespace" || l.old == nil {
				continue // another object, then
			}
			l.set(tampered(t, l, kind))
			report, err := verifyBytes(marshalJSON(t, list))
			l.set(l.old)
			if err != nil {
				t.Errorf("%s %s: %v", kind, l.path, err)
				continue
			}
			changes++
			if told := report.Outcome() != Sound; told == isUntold(kind, l.path) {
				t.Errorf("%s %s: found %v, outcome %d", kind, l.path, said(report), report.Outcome())
			}
			mustNotLeak(t, report)
		}
	}
	if changes < 200 {
		t.Errorf("only %d fields were changed", changes)
	}
	if diff := cmp.Diff(Sound, mustVerify(t, marshalJSON(t, list)).Outcome()); diff != "" {
		t.Errorf("all changes undone (-want +got):\n%s", diff)
	}
}

func decoded(t *testing.T, raw []byte) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func mustNotLeak(t *testing.T, report *Report) {
	t.Helper()
	var out bytes.Buffer
	for _, format := range Formats {
		printer := Printer{Out: &out, ErrOut: &out, Format: format}
		if err := printer.Print(report); err != nil {
			t.Fatal(err)
		}
	}
	for _, secret := range []string{
		keyBytes, configBytes, "PRIVATE KEY", "shop.example", "old.example",
		base64.StdEncoding.EncodeToString([]byte("-----BEGIN PRIVATE KEY-----\n"))[:24],
	} {
		if strings.Contains(out.String(), secret) {
			t.Fatalf("a report holds %q:\n%s", secret, out.String())
		}
	}
}
