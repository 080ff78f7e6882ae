package render

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ingressProxy is HAProxy with the library's output, but for two things: it
// listens at sockets of the test, and each backend answers with its own name.
type ingressProxy struct{ web, tls string }

func startIngress(t *testing.T) ingressProxy {
	t.Helper()
	out := renderIngress(t)
	dir := checkWithHAProxy(t, out)
	p := ingressProxy{web: filepath.Join(dir, "web.sock"), tls: filepath.Join(dir, "tls.sock")}
	configuration := strings.NewReplacer(
		`bind "${POD_IP}:8080"`, "bind unix@"+p.web,
		`bind "${POD_IP}:8443"`, "bind unix@"+p.tls,
		`bind "${POD_IP}:8404"`, "bind unix@"+filepath.Join(dir, "status.sock"),
	).Replace(string(out.Configuration))
	configuration = regexp.MustCompile(`(?m)^backend (\S+)$`).ReplaceAllString(configuration,
		"$0\n    http-request return status 200 content-type text/plain string \"$1\"")
	file := filepath.Join(dir, out.ConfigurationPath)
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "haproxy", "-db", "-dr", "-f", file)
	said := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("haproxy: %s", said)
		}
	})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		connection, err := net.Dial("unix", p.tls)
		if err == nil {
			_ = connection.Close() // it was only a try
			return p
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// ask tells which backend answered a URL, or where it redirects, and for TLS the
// name of the certificate.
func (p ingressProxy) ask(t *testing.T, url string) (answer, certificate string) {
	t.Helper()
	socket := p.web
	if strings.HasPrefix(url, "https:") {
		socket = p.tls
	}
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // what is served is compared instead
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", socket)
			},
		},
	}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.TLS != nil {
		certificate = response.TLS.PeerCertificates[0].Subject.CommonName
	}
	if to := response.Header.Get("Location"); to != "" {
		return to, certificate
	}
	return string(body), certificate
}

func TestIngressLibraryRoutesAsIngressDoes(t *testing.T) {
	p := startIngress(t)
	tests := []struct{ name, url, want, certificate string }{
		{"a host's root", "https://shop.example.org/", "shop_shop_http", "shop.example.org"},
		{"a host in capitals, with a port", "https://SHOP.example.org:8443/", "shop_shop_http", "shop.example.org"},
		{"a prefix itself", "https://shop.example.org/api", "shop_api_8080", "shop.example.org"},
		{"below a prefix, with a query", "https://shop.example.org/api/items?a=b", "shop_api_8080", "shop.example.org"},
		{"a longer prefix", "https://shop.example.org/api/v2/items", "shop_api-v2_8080", "shop.example.org"},
		{"a prefix that is written with a slash, without it", "https://shop.example.org/api/v2", "shop_api-v2_8080", "shop.example.org"},
		{"a word that begins like a prefix", "https://shop.example.org/apiary", "shop_shop_http", "shop.example.org"},
		{"an exact path", "https://shop.example.org/health", "shop_api_8080", "shop.example.org"},
		{"below an exact path", "https://shop.example.org/health/x", "shop_shop_http", "shop.example.org"},
		{"a wildcard", "https://a.blog.example.org/x", "blog_blog_80", "*.blog.example.org"},
		{"plain HTTP to a host with a certificate", "http://shop.example.org/a?b", "https://shop.example.org/a?b", ""},
		{"plain HTTP to a wildcard with a certificate", "http://a.blog.example.org/", "https://a.blog.example.org/", ""},
		{"an exact path of a rule without a host", "http://any.example.net/status", "blog_gone_80", ""},
		{"a host of nobody goes to the default backend", "http://any.example.net/", "blog_blog_80", ""},
		{"a wildcard is for one label", "http://a.b.blog.example.org/status", "blog_gone_80", ""},
		{"another class is not served", "http://other.example.org/status", "blog_gone_80", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			answer, certificate := p.ask(t, tc.url)
			if diff := cmp.Diff([]string{tc.want, tc.certificate}, []string{answer, certificate}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.url, diff)
			}
		})
	}
}
