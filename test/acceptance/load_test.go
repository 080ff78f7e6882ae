package acceptance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// loadRate is the number of requests per second.
	loadRate = 200
	// loadAtOnce bounds the requests under way; one that finds no place failed.
	loadAtOnce = 6000
	// loadTimeout is a patient client's. On a busy machine everything takes long;
	// how long is told, and only a connection that nobody serves fails.
	loadTimeout = 30 * time.Second
	// tlsEvery is how often a request is one over TLS. Handshakes are what costs
	// processor time, and a machine that has none left shows nothing of a proxy.
	tlsEvery = 9
)

// load asks proxies for host X all the time, in turn, some of it over TLS, each
// time on a new connection: a client sees then whether somebody accepts it.
type load struct {
	stop func()
	done chan struct{}

	mu sync.Mutex
	// answers counts the requests by how they ended.
	answers map[string]int
	// examples holds the first complaint of each kind of failure.
	examples map[string]string
	slowest  time.Duration
}

const answerGood = "200"

// startLoad begins, and is stopped with the test.
func (s *stage) startLoad(pods []*corev1.Pod) *load {
	s.t.Helper()
	var urls, secure []string
	for _, pod := range pods {
		urls = append(urls, "http://"+net.JoinHostPort(pod.Status.PodIP, "8080")+"/")
		secure = append(secure, "https://"+net.JoinHostPort(pod.Status.PodIP, "8443")+"/")
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	patient := *s.web
	patient.Timeout = loadTimeout
	l := &load{stop: cancel, done: make(chan struct{}), answers: map[string]int{}, examples: map[string]string{}}
	go func() {
		defer close(l.done)
		l.run(ctx, &patient, urls, secure)
	}()
	s.t.Cleanup(l.end)
	return l
}

func (l *load) end() {
	l.stop()
	<-l.done
}

// run begins requests at the rate, however long each takes.
func (l *load) run(ctx context.Context, by *http.Client, urls, secure []string) {
	// A request that has begun is not part of the end.
	lasting := context.WithoutCancel(ctx)
	ticker := time.NewTicker(time.Second / loadRate)
	defer ticker.Stop()
	places := make(chan struct{}, loadAtOnce)
	var wg sync.WaitGroup
	defer wg.Wait()
	began := time.Now()
	for sent := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// A ticker drops ticks of a busy machine; the rate must hold all the same.
		for due := int(time.Since(began).Seconds() * loadRate); sent < due; sent++ {
			select {
			case places <- struct{}{}:
			default:
				l.count("no place for it", errors.New("too many requests wait"), 0)
				continue
			}
			url := urls[sent%len(urls)]
			if sent%tlsEvery == 0 {
				url = secure[sent%len(secure)]
			}
			wg.Go(func() {
				defer func() { <-places }()
				asked := time.Now()
				body, err := get(lasting, by, url)
				if err == nil && !strings.HasPrefix(body, "host X, release ") {
					err = fmt.Errorf("%s: body %q", url, body)
				}
				l.count(ending(err), err, time.Since(asked))
			})
		}
	}
}

// ending is the kind of end that a client would tell apart.
func ending(err error) string {
	var timeout net.Error
	switch {
	case err == nil:
		return answerGood
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timed out"
	}
	return "another answer"
}

func (l *load) count(kind string, err error, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[kind]++
	l.slowest = max(l.slowest, took)
	if _, known := l.examples[kind]; !known && err != nil {
		l.examples[kind] = err.Error()
	}
}

// awaitRequests waits until so many requests have ended since take was called.
func (l *load) awaitRequests(s *stage, want int) {
	s.t.Helper()
	s.await("requests under load", func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		sent := 0
		for _, n := range l.answers {
			sent += n
		}
		if sent < want {
			return fmt.Errorf("%d requests, want %d", sent, want)
		}
		return nil
	})
}

// take is what was counted since it was called last.
func (l *load) take() (answers map[string]int, slowest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	answers, slowest = l.answers, l.slowest
	l.answers, l.slowest = map[string]int{}, 0
	return answers, slowest
}

// check shows what was counted since it was called last, and wants every request
// to have been answered.
func (l *load) check(t *testing.T, during string) {
	t.Helper()
	answers, slowest := l.take()
	t.Logf("load: %s: %d requests answered, slowest %.3f s", during, answers[answerGood], slowest.Seconds())
	if answers[answerGood] == 0 {
		t.Errorf("load: %s: no request was answered", during)
	}
	for _, kind := range slices.Sorted(maps.Keys(answers)) {
		if kind != answerGood {
			t.Errorf("load: %s: %d requests failed (%s), for example: %s", during, answers[kind], kind, l.examples[kind])
		}
	}
}
