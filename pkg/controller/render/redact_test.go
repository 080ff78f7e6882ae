package render

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestRedact(t *testing.T) {
	key := strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", 4)
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	snapshot := Snapshot{"s": {Objects: []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"data": map[string]any{"tls.key": encode(key), "password": encode("hunter22"), "short": encode("abc")},
	}}}}}
	tests := []struct{ name, text, want string }{
		{"a text without secrets stays", "unknown keyword 'foo' in 'frontend' section", "unknown keyword 'foo' in 'frontend' section"},
		{"a piece of a key goes", "cannot read " + key[5:45] + " here", "cannot read [redacted] here"},
		{"a piece of the encoded key goes", "bad " + encode(key)[8:50], "bad [redacted]"},
		{"a short password goes as a whole", "user x password hunter22!", "user x password [redacted]!"},
		{"what is too short to tell from words stays", "abc", "abc"},
		{"a long text is cut at a character", strings.Repeat("ä", 4000), strings.Repeat("ä", maxTextBytes/2) + " …"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, snapshot.Redact(tc.text)); diff != "" {
				t.Errorf("Redact() (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzRedactLeavesNoPieceOfASecret(f *testing.F) {
	f.Add("the quick brown fox jumps", "fox jumps over the lazy dog again")
	f.Fuzz(func(t *testing.T, text, secret string) {
		snapshot := Snapshot{"s": {Objects: []*unstructured.Unstructured{{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "stringData": map[string]any{"k": secret},
		}}}}}
		got := snapshot.Redact(text + secret)
		for i := 0; i+redactWindow <= len(secret); i++ {
			piece := secret[i : i+redactWindow]
			if strings.Contains(got, piece) && !strings.Contains(redacted+" …"+redacted, piece) {
				t.Fatalf("%q is left in %q", piece, got)
			}
		}
	})
}
