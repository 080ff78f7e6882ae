package inspect

import (
	"bytes"
	"encoding/json"
	"testing"

	"sigs.k8s.io/yaml"
)

// yaml is the export as kubectl get -o yaml writes it.
func (e *export) yaml(t testing.TB) []byte {
	t.Helper()
	return marshalYAML(t, map[string]any{
		"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}, "items": e.stored(),
	})
}

func marshalYAML(t testing.TB, value any) []byte {
	t.Helper()
	raw, err := yaml.Marshal(value)
	if err != nil {
		t.Fatalf("writing YAML: %v", err)
	}
	return raw
}

func marshalJSON(t testing.TB, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("writing JSON: %v", err)
	}
	return raw
}

// verifyBytes verifies standard input.
func verifyBytes(input []byte) (*Report, error) {
	files := Files{Paths: []string{"-"}, Stdin: bytes.NewReader(input)}
	inv, err := files.Read()
	if err != nil {
		return nil, err
	}
	return Verify(inv)
}

func readBytes(t testing.TB, input []byte) *Inventory {
	t.Helper()
	files := Files{Paths: []string{"-"}, Stdin: bytes.NewReader(input)}
	inv, err := files.Read()
	if err != nil {
		t.Fatalf("reading: %v", err)
	}
	return inv
}

func mustVerify(t testing.TB, input []byte) *Report {
	t.Helper()
	report, err := verifyBytes(input)
	if err != nil {
		t.Fatalf("verifying: %v", err)
	}
	return report
}
