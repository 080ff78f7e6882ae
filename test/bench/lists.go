package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// Bounds of section 13 of the design.
const (
	listTimeRatioBound  = 10
	listBytesRatioBound = 15
)

// The lists are read in turns, each some times in a row: kube-apiserver passes
// the views on, and would otherwise still collect what it needed for the stored
// objects.
const (
	listTurns  = 3
	listRounds = 7
)

// listing is one list request and what its answers cost.
type listing struct {
	path      string
	durations []time.Duration
	bytes     int64
}

// measureLists reads the views and the stored objects they are views of, both
// from kube-apiserver: it passes the first on and answers the second itself.
func measureLists(ctx context.Context, c *cluster, _ settings, r *report) error {
	if err := c.prepared(ctx, largeNamespace, largeShape); err != nil {
		return err
	}
	plain, err := c.compareLists(ctx, false)
	if err != nil {
		return err
	}
	r.add(target{name: "list-1000-time", value: plain.time, bound: listTimeRatioBound, unit: "x", relation: floor})
	r.add(target{name: "list-1000-bytes", value: plain.bytes, bound: listBytesRatioBound, unit: "x", relation: floor})
	// Clients that accept gzip get it, and pay for it; told beside the target.
	_, err = c.compareLists(ctx, true)
	return err
}

// ratios are stored objects to views.
type ratios struct {
	time, bytes float64
}

func (c *cluster) compareLists(ctx context.Context, gzip bool) (ratios, error) {
	config := rest.CopyConfig(c.config)
	// The client must neither ask for compression by itself nor undo it.
	config.DisableCompression = true
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return ratios{}, fmt.Errorf("making a client: %w", err)
	}
	views := &listing{path: "/apis/retained.haproxy-haptic.org/v1alpha1/namespaces/" + largeNamespace + "/retainedcheckpoints"}
	stored := &listing{path: "/apis/haproxy-haptic.org/v1alpha1/namespaces/" + largeNamespace + "/haproxycfgs"}
	for _, l := range []*listing{views, stored} {
		if err := l.check(ctx, client, c.config.Host, c.checkpoints); err != nil {
			return ratios{}, err
		}
	}
	var profiled chan error
	if c.profiles != "" && !gzip {
		profiled = make(chan error, 1)
		go func() { profiled <- c.profile(ctx, "profile?seconds=10", "lists") }()
	}
	for range listTurns {
		for _, l := range []*listing{views, stored} {
			for range listRounds {
				if err := l.read(ctx, client, c.config.Host, gzip); err != nil {
					return ratios{}, err
				}
			}
		}
	}
	if profiled != nil {
		if err := <-profiled; err != nil {
			return ratios{}, err
		}
	}
	v, s := median(views.durations), median(stored.durations)
	kind := "JSON"
	if gzip {
		kind = "gzip"
	}
	found := ratios{time: s.Seconds() / v.Seconds(), bytes: float64(stored.bytes) / float64(views.bytes)}
	say("  %s: views %d bytes in %s, stored objects %d bytes in %s: %.1f times the time, %.1f times the bytes",
		kind, views.bytes, v.Round(time.Microsecond), stored.bytes, s.Round(time.Microsecond), found.time, found.bytes)
	return found, nil
}

// check reads the list once, counts what is in it, and warms both servers up.
func (l *listing) check(ctx context.Context, client *http.Client, host string, want int) error {
	answer, err := l.ask(ctx, client, host, false)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		return fmt.Errorf("reading %s: %w", l.path, err)
	}
	if len(list.Items) != want {
		return fmt.Errorf("%s has %d items, expected %d", l.path, len(list.Items), want)
	}
	return nil
}

// read takes the time from the request to the last byte of the answer.
func (l *listing) read(ctx context.Context, client *http.Client, host string, gzip bool) error {
	started := time.Now()
	answer, err := l.ask(ctx, client, host, gzip)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if l.bytes, err = io.Copy(io.Discard, answer.Body); err != nil {
		return fmt.Errorf("reading %s: %w", l.path, err)
	}
	l.durations = append(l.durations, time.Since(started))
	return nil
}

func (l *listing) ask(ctx context.Context, client *http.Client, host string, gzip bool) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, host+l.path, nil)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", l.path, err)
	}
	request.Header.Set("Accept", "application/json")
	if gzip {
		request.Header.Set("Accept-Encoding", "gzip")
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", l.path, err)
	}
	if answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close()
		return nil, fmt.Errorf("listing %s: %s", l.path, answer.Status)
	}
	return answer, nil
}
