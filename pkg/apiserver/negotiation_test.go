package apiserver

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// outcome is a code and a content type.
type outcome struct {
	code        int
	contentType string
}

// TestRow14P8TheBestSupportedFormIsTaken: what a client likes best is no reason to
// refuse it what it would take, and what it would not is not sent.
func TestRow14P8TheBestSupportedFormIsTaken(t *testing.T) {
	s := startServer(t, "127.0.0.1:0")
	s.views.Checkpoints.Set(newCheckpoint("x", metav1.ConditionTrue))
	const (
		json, protobuf, yaml = "application/json", "application/vnd.kubernetes.protobuf", "application/yaml"
		table                = ";as=Table;v=v1;g=meta.k8s.io"
		tableBeta            = ";as=Table;v=v1beta1;g=meta.k8s.io"
		one                  = ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
		many                 = ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	)
	ok, no := func(contentType string) outcome { return outcome{200, contentType} }, outcome{406, json}
	tests := []struct {
		accept           string
		list, get, watch outcome
	}{
		{"", ok(json), ok(json), ok(json)},
		{"*/*", ok(json), ok(json), ok(json)},
		{json, ok(json), ok(json), ok(json)},
		{yaml, ok(yaml), ok(yaml), outcome{406, yaml}},
		{protobuf, no, no, no},
		{protobuf + "," + json, ok(json), ok(json), ok(json)},
		// A form that is not that of a list, or not of one object, is refused as a
		// built-in server refuses it: test/conformance compares.
		{protobuf + many + "," + json + many + "," + json, ok(protobuf), no, ok(json)},
		{protobuf + one + "," + json + one + "," + json, no, ok(protobuf), ok(json)},
		{json + table, ok(json), ok(json), ok(json)},
		{json + table + "," + json, ok(json), ok(json), ok(json)},
		{json + tableBeta, ok(json), ok(json), ok(json)},
		{json + table + "," + json + tableBeta + "," + json, ok(json), ok(json), ok(json)},
		{"application/cbor," + json, ok(json), ok(json), ok(json)},
		{"application/cbor", no, no, no},
		// Nobody streams YAML, and what is liked best is looked at alone; see above.
		{json + ";q=0.5," + yaml + ";q=0.9", ok(yaml), ok(yaml), outcome{406, yaml}},
		{json + ";q=0.9," + yaml + ";q=0.5", ok(json), ok(json), ok(json)},
		{"nonsense", no, no, no},
		{"nonsense,*/*;q=0.1", ok(json), ok(json), ok(json)},
		{json + ";as=Nonsense;v=v1;g=meta.k8s.io", no, no, no},
		{json + ";as=Table;v=v9;g=meta.k8s.io", no, no, no},
	}
	for _, tc := range tests {
		for path, want := range map[string]outcome{rckpts: tc.list, rckpts + "/x": tc.get, rckpts + "?watch=true&timeoutSeconds=1": tc.watch} {
			t.Run(tc.accept+" of "+path, func(t *testing.T) {
				t.Parallel()
				code, contentType, body := s.get("tester", path, tc.accept)
				if code != want.code || !strings.HasPrefix(contentType, want.contentType) {
					t.Errorf("code %d, type %s, want %d, %s: %.300s", code, contentType, want.code, want.contentType, body)
				}
				asked := strings.Contains(tc.accept, "as=Table")
				if code == 200 && asked != strings.Contains(body, `"kind":"Table"`) {
					t.Errorf("asked for a table %t, got %.300s", asked, body)
				}
			})
		}
	}
}
