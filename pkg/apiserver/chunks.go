package apiserver

import (
	"bufio"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// chunkBytes is how much of a list is written at once.
const chunkBytes = 64 << 10

// inChunks gathers what a list is made of. The library writes every item by
// itself, and each write costs a frame and a switch in this process, in the
// aggregator and in the client: more than encoding it.
func inChunks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || info.Verb != "list" {
			next.ServeHTTP(w, r)
			return
		}
		body := bufio.NewWriterSize(w, chunkBytes)
		next.ServeHTTP(&chunkedResponse{w, body}, r)
		// An error means that the client has gone.
		_ = body.Flush()
	})
}

// chunkedResponse is a response whose body goes through a buffer. A list is never
// flushed on the way.
type chunkedResponse struct {
	http.ResponseWriter
	body *bufio.Writer
}

func (c *chunkedResponse) Write(p []byte) (int, error) { return c.body.Write(p) }

// Unwrap is for http.ResponseController.
func (c *chunkedResponse) Unwrap() http.ResponseWriter { return c.ResponseWriter }
