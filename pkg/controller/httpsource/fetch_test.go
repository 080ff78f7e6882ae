package httpsource

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fetchFrom fetches once from a server, with a small bound.
func fetchFrom(t *testing.T, url string, last validators) (*Content, validators, error) {
	t.Helper()
	transport := newTransport()
	defer transport.CloseIdleConnections()
	return fetch(t.Context(), newClient(transport), settings{url: url, timeout: 5 * time.Second, maxBytes: 16}, last)
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func TestFetchAsksForNewsOnly(t *testing.T) {
	const etag, modified = `"v1"`, "Mon, 02 Jan 2006 15:04:05 GMT"
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == etag && r.Header.Get("If-Modified-Since") == modified {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("ETag", etag)
		w.Header().Set("Last-Modified", modified)
		fmt.Fprint(w, "content")
	})
	content, now, err := fetchFrom(t, server.URL, validators{})
	if err != nil {
		t.Fatal(err)
	}
	want := &Content{Text: "content", Digest: "sha256:ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"}
	if diff := cmp.Diff(want, content); diff != "" {
		t.Errorf("first fetch (-want +got):\n%s", diff)
	}
	content, again, err := fetchFrom(t, server.URL, now)
	if content != nil || err != nil || again != now {
		t.Errorf("second fetch = %v, %v, %v, want no content and the same validators", content, again, err)
	}
}

func TestFetchTakesADocumentOfExactlyTheLimit(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 16)) })
	content, _, err := fetchFrom(t, server.URL, validators{})
	if err != nil || len(content.Text) != 16 {
		t.Errorf("fetch() = %v, %v", content, err)
	}
}

func TestFetchRefusesForSizeWithBoundAndSize(t *testing.T) {
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    *TooLargeError
		text    string
	}{
		{
			name:    "a declared length",
			handler: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 100)) },
			want:    &TooLargeError{Limit: 16, Size: 100, Exact: true},
			text:    "the document has 100 bytes, the limit is 16",
		},
		{
			name: "no declared length",
			handler: func(w http.ResponseWriter, _ *http.Request) {
				for range 100 {
					fmt.Fprint(w, "x")
					_ = http.NewResponseController(w).Flush() // the client may be gone by now
				}
			},
			want: &TooLargeError{Limit: 16, Size: 17},
			text: "the document has at least 17 bytes, the limit is 16",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := fetchFrom(t, serve(t, tc.handler).URL, validators{})
			var got *TooLargeError
			if !errors.As(err, &got) {
				t.Fatalf("fetch() error = %v, want a TooLargeError", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fetch() error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.text, err.Error()); diff != "" {
				t.Errorf("fetch() text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFetchFailsWithACauseAndWithoutCredentials(t *testing.T) {
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		}
	}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"an answer that is no document", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, "the server answered 503"},
		{"no news of a document nobody has", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, "the server answered 304"},
		{"redirects without end", redirect("/again?token=secret"), "more than 5 redirects"},
		{"a redirect to another protocol", redirect("ftp://user:secret@other/"), `a redirect to "ftp", only http and https are followed`},
		{"a redirect to an address that is none", redirect("http://user:secret@ho st/?token=secret"), `failed to parse Location header`},
		{"a body that ends early", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "short")
		}, "reading the document: unexpected EOF"},
		{"no answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			server := serve(t, tc.handler)
			url := strings.Replace(server.URL, "http://", "http://user:secret@", 1) + "/list?token=secret"
			_, _, err := fetchFrom(t, url, validators{})
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("fetch() error = %v, want %s…", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("fetch() error tells a credential: %v", err)
			}
		})
	}
}

func TestFetchEndsAtItsBound(t *testing.T) {
	held := make(chan struct{})
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "a start")
		_ = http.NewResponseController(w).Flush()
		<-held
	})
	defer close(held)
	transport := newTransport()
	_, _, err := fetch(t.Context(), newClient(transport), settings{url: server.URL, timeout: 50 * time.Millisecond, maxBytes: 16}, validators{})
	if err == nil || !strings.HasSuffix(err.Error(), "it took longer than 50ms") {
		t.Errorf("fetch() error = %v", err)
	}
}

func TestFetchVerifiesCertificates(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") }))
	server.Config.ErrorLog = quietLog()
	server.StartTLS()
	defer server.Close()
	_, _, err := fetchFrom(t, server.URL, validators{})
	if err == nil || !strings.Contains(err.Error(), "x509: certificate signed by unknown authority") {
		t.Errorf("fetch() error = %v, want a refused certificate", err)
	}
}

func TestARedirectMustNotTakeTheEncryptionAway(t *testing.T) {
	plain := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") })
	server := httptest.NewTLSServer(http.RedirectHandler(plain.URL+"/?token=secret", http.StatusFound))
	defer server.Close()
	transport := server.Client().Transport // trusts the server's certificate
	_, _, err := fetch(t.Context(), newClient(transport), settings{url: server.URL, timeout: time.Second, maxBytes: 16}, validators{})
	if err == nil || err.Error() != "a redirect from https to http" {
		t.Errorf("fetch() error = %v", err)
	}
}

func TestARedirectTellsTheNextServerNothing(t *testing.T) {
	var referer, authorization string
	next := serve(t, func(w http.ResponseWriter, r *http.Request) {
		referer, authorization = r.Header.Get("Referer"), r.Header.Get("Authorization")
		fmt.Fprint(w, "x")
	})
	// Another host name, so that it is another server for the client too.
	other := strings.Replace(next.URL, "127.0.0.1", "localhost", 1)
	first := serve(t, http.RedirectHandler(other, http.StatusFound).ServeHTTP)
	url := strings.Replace(first.URL, "http://", "http://user:secret@", 1) + "/?token=secret"
	if _, _, err := fetchFrom(t, url, validators{}); err != nil {
		t.Fatal(err)
	}
	if referer != "" || authorization != "" {
		t.Errorf("the next server was told %q, %q", referer, authorization)
	}
}

func TestDisplayHidesCredentials(t *testing.T) {
	tests := []struct{ name, url, want string }{
		{"a plain URL", "https://host:8443/a/b.json", "https://host:8443/a/b.json"},
		{"user information", "https://user:secret@host/a", "https://host/a"},
		{"a query", "http://host/a?token=secret#part", "http://host/a?…"},
		{"no URL", "http://user:secret@ho st/", "an unreadable URL"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, display(tc.url)); diff != "" {
				t.Errorf("display() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScrubKeepsTheCauseTheSameFromAttemptToAttempt(t *testing.T) {
	err := errors.New("read udp 10.244.0.3:51234->10.96.0.10:53: i/o timeout")
	if diff := cmp.Diff("read udp 10.96.0.10:53: i/o timeout", scrub(err).Error()); diff != "" {
		t.Errorf("scrub() (-want +got):\n%s", diff)
	}
	long := scrub(errors.New(strings.Repeat("ä", 1000)))
	if got := len(long.Error()); got > maxCauseBytes+len(" …") {
		t.Errorf("scrub() keeps %d bytes", got)
	}
}

func FuzzScrubHidesCredentials(f *testing.F) {
	f.Add("http://user:", "host/path", "?token=")
	f.Fuzz(func(t *testing.T, before, between, after string) {
		const secret = "s3cr3tZZ"
		text := display("http://u:" + secret + "@host/" + "?" + secret)
		if strings.Contains(text, secret) {
			t.Fatalf("display() = %q", text)
		}
		if strings.ContainsAny(before+between+after, "@/?\"' \t\n\r\f\v") {
			return
		}
		err := scrub(errors.New("a http://" + before + secret + "@" + between + "/x?" + secret + after + " b"))
		if strings.Contains(err.Error(), secret) {
			t.Fatalf("scrub() = %q", err)
		}
	})
}
