package apiserver

import (
	"bufio"
	"io"
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"k8s.io/apiserver/pkg/endpoints/request"
)

const (
	// chunkBytes is how much of a list is written at once.
	chunkBytes = 64 << 10
	// minCompressed is the length from which a list is compressed for those who
	// take it so, which is the library's own bound.
	minCompressed = 128 << 10
)

// forLists gathers what a list is made of, and compresses it. The library writes
// every item by itself, and each write costs a frame and a switch in this process,
// in the aggregator and in the client: more than encoding it. Its compression, which
// is the standard library's, takes as long as the encoding, and has to be paid for
// every client: the aggregator asks for it whether its own client does or not.
func forLists(next http.Handler) http.Handler {
	compressed, err := gzhttp.NewWrapper(gzhttp.MinSize(minCompressed), gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(false))
	if err != nil {
		panic(err) // constants that it does not know
	}
	lists := compressed(inChunks(next))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); ok && info.Verb == "list" {
			lists.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// inChunks has the next handler write plainly, through a buffer. What is full is
// passed on while the next one is filled: to compress a list takes as long as to
// encode it.
func inChunks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		plain := r.Clone(r.Context())
		plain.Header.Del("Accept-Encoding")
		from, to := io.Pipe()
		var passing sync.WaitGroup
		passing.Go(func() {
			_, err := io.CopyBuffer(onlyWriter{w}, from, make([]byte, chunkBytes))
			from.CloseWithError(err) // means that the client has gone
		})
		defer passing.Wait()
		defer to.Close()
		body := bufio.NewWriterSize(to, chunkBytes)
		next.ServeHTTP(&chunkedResponse{w, body}, plain)
		_ = body.Flush() // the client has gone
	})
}

// onlyWriter hides that a response can read a body by itself, in pieces of its own.
type onlyWriter struct{ io.Writer }

// chunkedResponse is a response whose body goes through a buffer. A list is never
// flushed on the way.
type chunkedResponse struct {
	http.ResponseWriter
	body *bufio.Writer
}

func (c *chunkedResponse) Write(p []byte) (int, error) { return c.body.Write(p) }

// Unwrap is for http.ResponseController.
func (c *chunkedResponse) Unwrap() http.ResponseWriter { return c.ResponseWriter }
