package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// knocker opens a new connection every 10 ms and counts what becomes of them.
type knocker struct {
	mu      sync.Mutex
	opened  int
	failed  []string
	longest time.Duration // between two good answers
	stop    context.CancelFunc
	done    chan struct{}
}

func knock(t *testing.T, address string) *knocker {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	k := &knocker{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		var asked sync.WaitGroup
		defer asked.Wait()
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		last := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			asked.Go(func() {
				err := get(address)
				k.mu.Lock()
				defer k.mu.Unlock()
				k.opened++
				if err != nil {
					k.failed = append(k.failed, err.Error())
					return
				}
				k.longest, last = max(k.longest, time.Since(last)), time.Now()
			})
		}
	}()
	return k
}

// get is one request over a connection of its own, of which every byte has to
// come.
func get(address string) error {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}}
	response, err := client.Get("http://" + address + "/")
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

func (k *knocker) end() (opened int, failed []string, longest time.Duration) {
	k.stop()
	<-k.done
	return k.opened, k.failed, k.longest
}

// TestConnectionsDuringReloads: a client that comes every 10 ms during many
// reloads meets no refused and no reset connection, no more than it would with
// HAProxy alone and files written by hand.
func TestConnectionsDuringReloads(t *testing.T) {
	reloads := oftenUnlessFull(100, 15)
	t.Run("by the agent", func(t *testing.T) {
		p := newPod(t)
		p.mustLoad(p.output("start"))
		k := knock(t, p.frontend())
		for i := range reloads {
			p.mustLoad(p.output(fmt.Sprint("reload ", i)))
		}
		opened, failed, longest := k.end()
		t.Logf("%d reloads, %d connections, %d failed, longest gap %s", reloads, opened, len(failed), longest)
		if len(failed) > 0 {
			t.Errorf("%d of %d connections failed, first: %s", len(failed), opened, failed[0])
		}
	})
	t.Run("by hand", func(t *testing.T) {
		p := layPod(t)
		p.startHAProxy()
		eventually(t, "the start", func() bool { return get(p.frontend()) == nil })
		s := &supervisor{master: p.layout.masterSocket(), worker: p.layout.workerSocket(), wait: waitLimit}
		k := knock(t, p.frontend())
		for i := range reloads {
			nonce := fmt.Sprint("by-hand-", i)
			writeFile(t, filepath.Join(p.layout.current(), api.ConfigPath), p.config(nonce))
			must(t, os.WriteFile(p.layout.nonce(), []byte("global\n    description "+nonce+"\n    stats socket "+
				p.layout.workerSocket()+" mode 600 level admin expose-fd listeners\n"), 0o600))
			if outcome := s.reload(t.Context(), nonce); outcome.Result != resultLoaded {
				t.Fatalf("reload %d: %+v", i, outcome)
			}
		}
		opened, failed, longest := k.end()
		t.Logf("%d reloads, %d connections, %d failed, longest gap %s", reloads, opened, len(failed), longest)
	})
}

// longestPause is how long HAProxy itself keeps its old worker paused while the
// new one tries to take a port: 200 times 10 ms, and the way back.
const longestPause = 5 * time.Second

// TestP12OldFrontendKeepsServing: a reload that cannot take its port pauses the
// old worker, as HAProxy does by itself, and no longer than that.
func TestP12OldFrontendKeepsServing(t *testing.T) {
	p := newPod(t)
	p.mustLoad(p.output("before"))
	held, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer held.Close()
	bad := output{api.ConfigPath: p.output("after")[api.ConfigPath] + fmt.Sprintf("    bind %s\n", held.Addr())}
	k := knock(t, p.frontend())
	for range 3 {
		if result := p.apply(bad); result.Mode != api.OutcomeRejected {
			t.Errorf("ended as %s", result.Mode)
		}
		if got := p.served(); got != "before" {
			t.Errorf("serves %q right after the answer", got)
		}
	}
	opened, failed, longest := k.end()
	t.Logf("%d connections, %d failed, longest pause %s", opened, len(failed), longest)
	if longest > longestPause {
		t.Errorf("the frontend was away for %s", longest)
	}
}
