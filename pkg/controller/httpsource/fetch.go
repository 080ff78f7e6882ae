package httpsource

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// maxRedirects is how many further addresses one fetch may be sent to.
	maxRedirects = 5
	// maxHeaderBytes bounds what a server may say beside the document.
	maxHeaderBytes = 64 << 10
	userAgent      = "holdfast-controller"
)

// TooLargeError refuses a document for its size.
type TooLargeError struct {
	Limit int64
	// Size is the document's, or at least what was read of it.
	Size  int64
	Exact bool
}

func (e *TooLargeError) Error() string {
	if e.Exact {
		return fmt.Sprintf("the document has %d bytes, the limit is %d", e.Size, e.Limit)
	}
	return fmt.Sprintf("the document has at least %d bytes, the limit is %d", e.Size, e.Limit)
}

// Content is a document as it was at one time. It is never changed.
type Content struct {
	Text   string
	Digest string
}

func newContent(body []byte) *Content {
	sum := sha256.Sum256(body)
	return &Content{Text: string(body), Digest: "sha256:" + hex.EncodeToString(sum[:])}
}

// validators are what a server gave to ask for news with.
type validators struct{ etag, modified string }

// newTransport connects as a browser would, with bounds: certificates are
// verified, and an egress proxy of the environment is used.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           maxSources,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

func newClient(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: checkRedirect}
}

// checkRedirect bounds where a document may be. A redirect must not take the
// encryption away, and the next server has no business with this one's URL.
func checkRedirect(next *http.Request, via []*http.Request) error {
	next.Header.Del("Referer")
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case next.URL.Scheme != "http" && next.URL.Scheme != "https":
		return fmt.Errorf("a redirect to %q, only http and https are followed", next.URL.Scheme)
	case via[len(via)-1].URL.Scheme == "https" && next.URL.Scheme == "http":
		return errors.New("a redirect from https to http")
	}
	return nil
}

// fetch gets the document. It is nil when the server says that the one the
// validators belong to is still the newest.
func fetch(ctx context.Context, client *http.Client, s settings, last validators) (*Content, validators, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	content, now, err := get(ctx, client, s, last)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("it took longer than %s", s.timeout)
	}
	return content, now, err
}

func get(ctx context.Context, client *http.Client, s settings, last validators) (*Content, validators, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return nil, last, scrub(err)
	}
	request.Header.Set("User-Agent", userAgent)
	if last.etag != "" {
		request.Header.Set("If-None-Match", last.etag)
	}
	if last.modified != "" {
		request.Header.Set("If-Modified-Since", last.modified)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, last, scrub(err)
	}
	// Reading has ended by then, one way or the other.
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusNotModified && last != (validators{}):
		return nil, last, nil
	case response.StatusCode != http.StatusOK:
		return nil, last, fmt.Errorf("the server answered %d", response.StatusCode)
	}
	content, err := read(response, s.maxBytes)
	if err != nil {
		return nil, last, err
	}
	return content, validators{etag: response.Header.Get("ETag"), modified: response.Header.Get("Last-Modified")}, nil
}

func read(response *http.Response, limit int64) (*Content, error) {
	if response.ContentLength > limit {
		return nil, &TooLargeError{Limit: limit, Size: response.ContentLength, Exact: true}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading the document: %w", scrub(err))
	}
	if size := int64(len(body)); size > limit {
		return nil, &TooLargeError{Limit: limit, Size: size}
	}
	return newContent(body), nil
}
