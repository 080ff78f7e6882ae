package integration

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"strings"
)

// handler forwards what a controller asks for, until it is to die. What it sends
// beside its last write, as files go out side by side, gets lost on the way.
func (c *controllerProcess) handler() http.Handler {
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(c.upstream) },
		Transport:     c.transport,
		FlushInterval: -1, // watches
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number, behind, due := c.number(r)
		if due && behind {
			// Whatever becomes of the controller, the API server answers this one.
			forward.ServeHTTP(discard{}, r.WithContext(context.WithoutCancel(r.Context())))
		}
		if due {
			c.kill(number, behind, r)
		}
		if c.isDead() {
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	})
}

// number numbers a write, and tells whether the controller dies at it. Events
// and renewals have no number: nothing stored depends on them.
func (c *controllerProcess) number(r *http.Request) (number int, behind, due bool) {
	if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/events") {
		return 0, false, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.URL.Path == "/apis/coordination.k8s.io/v1/namespaces/"+killed+"/leases/"+killed+"-leader" {
		if c.elections++; c.elections > electionWrites {
			return 0, false, false
		}
	}
	c.own++
	c.writes++
	if c.nth == 0 || c.own < c.nth || c.dead {
		return c.own, false, false
	}
	c.nth, c.dead = 0, true
	return c.own, c.behind, true
}

func (c *controllerProcess) isDead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

// kill ends the controller with SIGKILL, and returns when it has ended.
func (c *controllerProcess) kill(number int, behind bool, r *http.Request) {
	_ = c.cmd.Process.Kill() // it cannot have ended: it waits for an answer
	<-c.ended
	when := "before"
	if behind {
		when = "after"
	}
	_, what, _ := strings.Cut(r.URL.Path, "/namespaces/"+killed+"/")
	c.kills <- fmt.Sprintf("killed %s %s its write %d: %s %s", c.name, when, number, r.Method, what)
}

// discard is an answer that nobody gets.
type discard struct{}

func (d discard) Header() http.Header         { return http.Header{} }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}
