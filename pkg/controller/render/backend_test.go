package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

var noWeight = int64(0)

var backends = []struct {
	name string
	data map[string]any
	want plan.Backend
	body []string
	text string
}{
	{
		name: "all that can be said of a backend",
		data: map[string]any{
			"name": "shop", "mode": "http", "balance": "uri", "hashType": "consistent",
			"comments":      []any{"from a test"},
			"options":       "option forwardfor\n\n  option httpchk GET /up  \n",
			"defaultServer": []string{"check", "inter 2s"},
			"servers": []any{
				map[string]any{"name": "a", "address": "10.0.0.1", "port": int64(80), "weight": 0.0, "extra": []any{"send-proxy-v2", "cookie a"}},
				map[string]any{"name": "b", "address": "2001:db8::1", "port": "8080", "disabled": true},
			},
		},
		want: plan.Backend{
			Name: "shop", Mode: "http", Balance: "uri", HashType: "consistent",
			Shape: plan.ShapeStructural, ShapeReason: "default-server is set",
			DefaultServer: []plan.Keyword{{Name: "check", Args: []string{}}, {Name: "inter", Args: []string{"2s"}}},
			Servers: []plan.Server{
				{Name: "a", Address: "10.0.0.1", Port: 80, Weight: &noWeight, Extra: []plan.Keyword{{Name: "send-proxy-v2", Args: []string{}}, {Name: "cookie", Args: []string{"a"}}}},
				{Name: "b", Address: "2001:db8::1", Port: 8080, Disabled: true},
			},
		},
		body: []string{"option forwardfor", "option httpchk GET /up"},
		text: "backend shop\n    # from a test\n    mode http\n    balance uri\n    hash-type consistent\n    option forwardfor\n" +
			"    option httpchk GET /up\n    default-server check inter 2s\n" +
			"    server a 10.0.0.1:80 weight 0 send-proxy-v2 cookie a\n    server b [2001:db8::1]:8080 disabled\n",
	},
	{
		name: "addresses alone are dynamic",
		data: map[string]any{"name": "b", "servers": []any{map[string]any{"name": "a", "address": "10.0.0.1", "port": 80}}},
		want: plan.Backend{Name: "b", Shape: plan.ShapeDynamic, Servers: []plan.Server{{Name: "a", Address: "10.0.0.1", Port: 80}}},
		text: "backend b\n    server a 10.0.0.1:80\n",
	},
	{
		name: "a host name is structural",
		data: map[string]any{"name": "b", "servers": []any{map[string]any{"name": "a", "address": "web.internal", "port": 80}}},
		want: plan.Backend{Name: "b", Shape: plan.ShapeStructural, ShapeReason: "server a has a host name", Servers: []plan.Server{{Name: "a", Address: "web.internal", Port: 80}}},
		text: "backend b\n    server a web.internal:80\n",
	},
}

func TestBackendBecomesTextAndRecord(t *testing.T) {
	for _, tc := range backends {
		t.Run(tc.name, func(t *testing.T) {
			got, err := newBackend(tc.data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.text, got.text); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			want := tc.want
			want.TextDigest = plan.DigestString(tc.text)
			want.BodyDigest, want.CommentsDigest = plan.LinesDigest(got.lines.Body), plan.LinesDigest(got.lines.Comments)
			want.RecordDigest = got.record.RecordDigest
			if diff := cmp.Diff(want, got.record); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.body, got.lines.Body); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBackendRefuses(t *testing.T) {
	server := func(change map[string]any) map[string]any {
		s := map[string]any{"name": "s", "address": "10.0.0.1", "port": 80}
		for key, value := range change {
			s[key] = value
		}
		return map[string]any{"name": "b", "servers": []any{s}}
	}
	tests := []struct {
		name string
		data map[string]any
		want string
	}{
		{"no name", map[string]any{}, `name "" must be 1 to 128 of A-Z a-z 0-9 _ . : -`},
		{"a name with a line break", map[string]any{"name": "b\nfrontend x"}, "name must be one line without control characters"},
		{"a misspelt key", map[string]any{"name": "b", "balanse": "x"}, `unknown key "balanse", known are name, mode, balance, hashType, defaultServer, options, comments, servers`},
		{"another mode", map[string]any{"name": "b", "mode": "health"}, `backend "b": mode must be http or tcp, not "health"`},
		{"an option that starts a section", map[string]any{"name": "b", "options": []any{"frontend x"}}, `backend "b": option "frontend x" would start another section`},
		{"a server as an option", map[string]any{"name": "b", "options": []any{"server x 1.2.3.4:80"}}, `backend "b": option "server x 1.2.3.4:80" has a key of its own`},
		{"an option with a line break in a list", map[string]any{"name": "b", "options": []any{"a\nb"}}, "line 1: options must be one line without control characters"},
		{"a port out of range", server(map[string]any{"port": 70000}), `backend "b": servers[0]: port 70000 must be between 1 and 65535`},
		{"a named port", server(map[string]any{"port": "http"}), `backend "b": servers[0]: port "http" must be a number`},
		{"half a port", server(map[string]any{"port": 80.5}), `backend "b": servers[0]: port 80.5 must be a whole number`},
		{"an address with words", server(map[string]any{"address": "10.0.0.1 check"}), `backend "b": servers[0]: address "10.0.0.1 check" is neither an IP address nor a host name`},
		{"a weight over HAProxy's limit", server(map[string]any{"weight": 257}), `backend "b": servers[0]: weight 257 must be between 0 and 256`},
		{"disabled as a text", server(map[string]any{"disabled": "no"}), `backend "b": servers[0]: disabled must be true or false, is string`},
		{
			"two servers of one name",
			map[string]any{"name": "b", "servers": []any{
				map[string]any{"name": "s", "address": "10.0.0.1", "port": 80}, map[string]any{"name": "s", "address": "10.0.0.2", "port": 80},
			}},
			`backend "b": server name "s" is used twice`,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := newBackend(tc.data)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("newBackend() error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryServerOfARecordIsInTheText(t *testing.T) {
	e := &emitted{record: plan.Backend{Name: "b"}, lines: checkpoint.BackendText{}}
	if err := e.seal(nil); err != nil {
		t.Fatal(err)
	}
	empty := e.record.RecordDigest
	e.record = plan.Backend{Name: "b", Servers: []plan.Server{{Name: "s", Address: "10.0.0.1", Port: 80}}}
	if err := e.seal(nil); err != nil {
		t.Fatal(err)
	}
	if e.record.RecordDigest == empty {
		t.Error("a server more left the record's digest as it was")
	}
}
