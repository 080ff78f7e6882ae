package render

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// refusal is a template that must not render, and what is said about it.
type refusal struct {
	name     string
	template *v1alpha1.HAProxyTemplateConfig
	want     Error
	message  string
}

// oneBackend is a template's call that makes a sound backend.
const oneBackend = `{{ backend (dict "name" "b" "servers" (list (dict "name" "s" "address" "10.0.0.1" "port" 80))) }}`

func checkRefusals(t *testing.T, tests []refusal) {
	t.Helper()
	snapshot := Snapshot{
		"ingresses": {Objects: []*unstructured.Unstructured{
			object(t, "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: broken, namespace: shop}, spec: {rules: []}}"),
		}},
		"secrets": {Objects: []*unstructured.Unstructured{
			object(t, "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, data: {password: c3VwZXJzZWNyZXQtcGFzc3dvcmQ=}}"),
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := renderOnce(t, tc.template, snapshot)
			var got *Error
			if !errors.As(err, &got) {
				t.Fatalf("Render() error = %v, want an *Error", err)
			}
			if diff := cmp.Diff(&tc.want, got, cmpopts.IgnoreFields(Error{}, "Err")); diff != "" {
				t.Errorf("Render() error (-want +got):\n%s\n%v", diff, got)
			}
			if diff := cmp.Diff(tc.message, got.Err.Error()); diff != "" {
				t.Errorf("Render() message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusedIsWhatItsAuthorMustCorrect(t *testing.T) {
	checkRefusals(t, []refusal{
		{
			name:     "a syntax error, with its line",
			template: templateOf(head + "{{ if }}\n"),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "haproxyConfig", Line: 3},
			message:  "missing value for if",
		},
		{
			name:     "a function that is not pure",
			template: templateOf(head + "{{ now }}\n"),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "haproxyConfig", Line: 3},
			message:  `function "now" not defined`,
		},
		{
			name:     "a resource that is not declared",
			template: templateOf(head + "{{ range resources \"gateways\" }}{{ end }}\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3, Value: `resources "gateways"`},
			message:  `error calling resources: watched resource "gateways" is not declared in watchedResources`,
		},
		{
			name:     "a map that is not declared",
			template: templateOf(head + "# {{ mapPath \"hosts.map\" }}\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3, Value: `mapPath "hosts.map"`},
			message:  `error calling mapPath: "hosts.map" is not declared in the template object`,
		},
		{
			name:     "a snippet with the name of a file",
			template: templateOf(head, mapFile("m.map", "x"), snippet("maps/m.map", "y")),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "maps/m.map"},
			message:  "the snippet has the name of a file",
		},
		{
			name:     "a definition that would replace a template",
			template: templateOf(head+`{{ define "s" }}x{{ end }}`, snippet("s", "y")),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "haproxyConfig"},
			message:  `define "s" would replace the template of that name`,
		},
		{
			name:     "a file name that is a path",
			template: templateOf(head, mapFile("a/b.map", "x")),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "maps/a/b.map"},
			message:  `file name "a/b.map" may hold letters, digits and . _ - + = @ only`,
		},
		{
			name: "a broken index",
			template: templateOf(head, func(s *v1alpha1.HAProxyTemplateConfigSpec) {
				s.WatchedResources = map[string]v1alpha1.WatchedResource{"x": {IndexBy: []string{"a["}}}
			}),
			want:    Error{Reason: ReasonTemplateInvalid},
			message: `watched resource "x": indexBy "a[": unterminated array`,
		},
	})
}

func TestRefusedIsWhatTheDataDoesNotHold(t *testing.T) {
	checkRefusals(t, []refusal{
		{
			name:     "a missing key of a watched object, which it names",
			template: templateOf(head + "{{ range resources \"ingresses\" }}\n{{ .spec.tls }}\n{{ end }}"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 4, Value: ".spec.tls", Object: "Ingress shop/broken"},
			message:  `map has no entry for key "tls"`,
		},
		{
			name:     "a missing key after the loop, which names no object",
			template: templateOf(head + "{{ range resources \"ingresses\" }}{{ end }}\n{{ .absent }}\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 4, Value: ".absent"},
			message:  `map has no entry for key "absent"`,
		},
		{
			name:     "a failure in a snippet, at the snippet's own line",
			template: templateOf(head+"{{ include \"inner\" . }}\n", snippet("inner", "\n\n{{ .absent }}")),
			want:     Error{Reason: ReasonRenderFailed, Template: "inner", Line: 3, Value: ".absent"},
			message:  `map has no entry for key "absent"`,
		},
		{
			name:     "base64 that is none",
			template: templateOf(head + "{{ b64dec \"%%%\" }}\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3, Value: `b64dec "%%%"`},
			message:  "error calling b64dec: illegal base64 data at input byte 0",
		},
		{
			name:     "a Secret's value in the author's own error text",
			template: templateOf(head + `{{ range resources "secrets" }}{{ fail (printf "bad %s" (b64dec .data.password)) }}{{ end }}`),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3, Value: `fail (printf "bad %s" (b64dec .data.password))`, Object: "Secret shop/s"},
			message:  "error calling fail: bad [redacted]",
		},
	})
}

func TestRefusedIsAnOutputThatPodsWouldReadDifferently(t *testing.T) {
	checkRefusals(t, []refusal{
		{
			name:     "a configuration without default-path",
			template: templateOf("global\n  maxconn 10\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig"},
			message:  "the global section lacks: default-path config. Without it, relative paths are not those of the output",
		},
		{
			name:     "another default-path",
			template: templateOf("global\n  default-path origin /etc\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 2, Value: "default-path origin /etc"},
			message:  "rendered line 2: must be: default-path config",
		},
		{
			name:     "an absolute path of a managed file, at the template's line",
			template: templateOf(head+"{{ range until 3 }}\n# {{ . }}\n{{- end }}\nfrontend f\n  use_backend %[hdr(host),map(/etc/haproxy/maps/hosts.map)]\n", mapFile("hosts.map", "x")),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 7, Value: "/etc/haproxy/maps/hosts.map"},
			message:  "rendered line 8: a managed file must be named by mapPath, filePath or certPath, not by an absolute path",
		},
		{
			name:     "a path into the agent's folder, from a snippet",
			template: templateOf(head+"{{ include \"log\" . }}\n", snippet("log", "# fine\n  stats socket /var/lib/holdfast/run/x.sock")),
			want:     Error{Reason: ReasonRenderFailed, Template: "log", Line: 2, Value: "/var/lib/holdfast/run/x.sock"},
			message:  "rendered line 4: a managed file must be named by mapPath, filePath or certPath, not by an absolute path",
		},
		{
			name:     "an environment name outside the list",
			template: templateOf(head + "frontend f\n  bind \"${HOST_IP}:80\"\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 4, Value: "HOST_IP"},
			message:  "rendered line 4: environment name HOST_IP is not one of POD_IP, POD_NAME, POD_NAMESPACE, POD_UID",
		},
		{
			name:     "an environment name read by a sample",
			template: templateOf(head + "frontend f\n  http-request set-header x %[env(SECRET)]\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 4, Value: "SECRET"},
			message:  "rendered line 4: environment name SECRET is not one of POD_IP, POD_NAME, POD_NAMESPACE, POD_UID",
		},
		{
			name:     "a changed environment",
			template: templateOf(head + "  setenv POD_IP 1.2.3.4\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3, Value: "setenv"},
			message:  "rendered line 3: the environment is the pod's, a configuration must not change it",
		},
		{
			name:     "a null value in a map",
			template: templateOf(head, mapFile("m.map", "a b\nc {{ .nothing }}\n"), extraContext(`{"nothing":null}`)),
			want:     Error{Reason: ReasonRenderFailed, Template: "maps/m.map", Line: 2, Output: true},
			message:  "a value is null",
		},
		{
			name:     "a control character",
			template: templateOf(head + "{{ \"a\\x04b\" }}\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3},
			message:  "rendered line 3: the line holds a control character",
		},
	})
}

func TestRefusedIsABackendThatItsRecordWouldNotTell(t *testing.T) {
	checkRefusals(t, []refusal{
		{
			name:     "a backend that is made twice",
			template: templateOf(head + oneBackend + "\n" + oneBackend + "\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 4, Value: `backend (dict "name" "b" "servers" (list (dict "name" "s" "address" "10.0.0.1" "port" 80)))`},
			message:  `error calling backend: backend "b" is made twice`,
		},
		{
			name:     "a backend that is not printed",
			template: templateOf(head + `{{ $x := backend (dict "name" "b") }}`),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "haproxyConfig"},
			message:  `backend "b" is not printed on a line of its own`,
		},
		{
			name:     "a backend in the middle of a line",
			template: templateOf(head + `x {{ backend (dict "name" "b") }}` + "\n"),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "haproxyConfig"},
			message:  `backend "b" is not printed on a line of its own`,
		},
		{
			name:     "a line after a backend that would silently belong to it",
			template: templateOf(head + oneBackend + "\n  http-request deny\n"),
			want:     Error{Reason: ReasonTemplateInvalid, Template: "haproxyConfig"},
			message:  `the line "http-request deny" after backend "b" starts no section; use options`,
		},
		{
			name:     "a backend in a shared value",
			template: templateOf(head+`{{ shared "s" }}`+"\n", snippet("s", oneBackend)),
			want:     Error{Reason: ReasonRenderFailed, Template: "s", Line: 1, Value: `backend (dict "name" "b" "servers" (list (dict "name" "s" "address" "10.0.0.1" "port" 80)))`},
			message:  "error calling backend: backend belongs into haproxyConfig",
		},
		{
			name:     "a shared value that is none",
			template: templateOf(head+`{{ shared "s" }}`+"\n", snippet("s", "text")),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3, Value: `shared "s"`},
			message:  `error calling shared: snippet "s" gives no JSON: invalid character 'e' in literal true (expecting 'r')`,
		},
		{
			name:     "a backend in a map",
			template: templateOf(head, mapFile("m.map", oneBackend)),
			want:     Error{Reason: ReasonRenderFailed, Template: "maps/m.map", Line: 1, Value: `backend (dict "name" "b" "servers" (list (dict "name" "s" "address" "10.0.0.1" "port" 80)))`},
			message:  "error calling backend: backend belongs into haproxyConfig",
		},
	})
}

func TestRefusedIsACertificateThatPodsCouldNotLoad(t *testing.T) {
	certificate, key := keyPair(t, "a.example.org")
	_, other := keyPair(t, "b.example.org")
	// The PEM texts go in as values, so that only their names are in the error.
	values := func(texts map[string][]byte) func(*v1alpha1.HAProxyTemplateConfigSpec) {
		raw := map[string]string{}
		for name, text := range texts {
			raw[name] = string(text)
		}
		encoded, err := json.Marshal(raw)
		if err != nil {
			t.Fatal(err)
		}
		return extraContext(string(encoded))
	}
	good := append(slices.Clone(certificate), key...)
	call := func(value string) Error {
		return Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3, Value: `certificate "a.pem" ` + value}
	}
	checkRefusals(t, []refusal{
		{
			name:     "a text that is no certificate",
			template: templateOf(head+`{{ $_ := certificate "a.pem" "x" }}`+"\n", values(nil)),
			want:     call(`"x"`),
			message:  `error calling certificate: "a.pem": tls: failed to find any PEM data in certificate input`,
		},
		{
			name:     "a certificate with the key of another",
			template: templateOf(head+`{{ $_ := certificate "a.pem" .pem }}`+"\n", values(map[string][]byte{"pem": append(slices.Clone(certificate), other...)})),
			want:     call(".pem"),
			message:  `error calling certificate: "a.pem": tls: private key does not match public key`,
		},
		{
			name:     "a certificate without its key",
			template: templateOf(head+`{{ $_ := certificate "a.pem" .pem }}`+"\n", values(map[string][]byte{"pem": certificate})),
			want:     call(".pem"),
			message:  `error calling certificate: "a.pem": tls: found a certificate rather than a key in the PEM for the private key`,
		},
		{
			name:     "two certificates of one name",
			template: templateOf(head+`{{ $_ := certificate "a.pem" .pem }}{{ $_ := certificate "a.pem" .pem }}{{ $_ := certificate "a.pem" "x" }}`+"\n", values(map[string][]byte{"pem": good})),
			want:     call(`"x"`),
			message:  `error calling certificate: "a.pem" is added twice with different content`,
		},
		{
			name: "a certificate that is declared",
			template: templateOf(head+`{{ $_ := certificate "a.pem" .pem }}`+"\n", values(map[string][]byte{"pem": good}), func(s *v1alpha1.HAProxyTemplateConfigSpec) {
				put(&s.SSLCertificates, "a.pem", "x")
			}),
			want:    call(".pem"),
			message: `error calling certificate: "a.pem" is declared in sslCertificates already`,
		},
		{
			name:     "a certificate in a map",
			template: templateOf(head, mapFile("m.map", `{{ certificate "a.pem" .pem }}`), values(map[string][]byte{"pem": good})),
			want:     Error{Reason: ReasonRenderFailed, Template: "maps/m.map", Line: 1, Value: `certificate "a.pem" .pem`},
			message:  "error calling certificate: certificate belongs into haproxyConfig",
		},
		{
			name:     "a document that is not declared",
			template: templateOf(head + `{{ http "blocklist" }}` + "\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3, Value: `http "blocklist"`},
			message:  `error calling http: "blocklist" is not declared in httpResources`,
		},
	})
}

func TestRefusedIsWhatHasNoEnd(t *testing.T) {
	checkRefusals(t, []refusal{
		{
			name:     "a snippet that includes itself",
			template: templateOf(head+"{{ include \"loop\" . }}\n", snippet("loop", `{{ include "loop" . }}`)),
			want:     Error{Reason: ReasonRenderFailed, Template: "loop", Line: 1, Value: `include "loop" .`},
			message:  "error calling include: includes are nested deeper than 64",
		},
		{
			name:     "an endless list",
			template: templateOf(head + "{{ range until 2000000000 }}{{ end }}\n"),
			want:     Error{Reason: ReasonRenderFailed, Template: "haproxyConfig", Line: 3, Value: "until 2000000000"},
			message:  "error calling until: a list of 2000000000 numbers exceeds the limit of 1048576",
		},
		{
			name:     "an output without end",
			template: templateOf(head + "{{ range until 1000 }}# {{ repeat 30000 \"x\" }}\n{{ end }}"),
			want:     Error{Reason: ReasonTooLarge, Template: "haproxyConfig"},
			message:  "the output exceeds the limit of 16777216 bytes",
		},
	})
}
