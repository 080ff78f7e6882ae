package server

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // the one fingerprint that HAProxy shows
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
)

// Names of what a worker that is ours must hold, besides its nonce.
const (
	violationMaps         = "worker_maps_are_the_files"
	violationCertificates = "worker_certificates_are_the_files"
	violationServers      = "worker_servers_are_the_configuration"
)

// compareTimeout bounds one whole comparison.
const compareTimeout = 8 * time.Second

// compare reads the worker again, as far as its version shows, and holds it
// against a set: the one it was loaded from, since somebody may have changed it,
// or one that it was brought to without a reload. It returns a driftError, or an
// error that says nothing about the worker.
func (a *agent) compare(ctx context.Context, with *set) error {
	// Through the master, which knows which worker is the current one.
	return a.compareAt(ctx, with, view{socket: a.haproxy.master, prefix: fmt.Sprintf("@!%d ", a.seen.Info.PID)})
}

// view is how a worker is read.
type view struct {
	socket string
	prefix string
	// servers are those of the set's configuration, where somebody reads them too.
	servers serverReader
	// only, if there is one, bounds what is read of maps, lists and servers, which
	// are what there are many of. The rest was found to be well just before.
	only *scope
}

// scope is what may have changed since a worker was compared last.
type scope struct {
	files    map[string]bool
	backends map[string]bool
}

// maxBackendsAlone is how many backends are asked for one by one.
const maxBackendsAlone = 16

// compareAt is compare through any socket of the worker.
func (a *agent) compareAt(ctx context.Context, with *set, at view) error {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	root, err := os.OpenRoot(filepath.Join(a.layout.set(with.ID), setFiles))
	if err != nil {
		return err
	}
	defer root.Close()
	c := comparison{root: root, files: with.byPath(), view: at}
	checks := []struct {
		invariant string
		run       func(context.Context) error
		err       error
	}{
		{invariant: violationMaps, run: func(ctx context.Context) error { return c.patterns(ctx, "map") }},
		{invariant: violationMaps, run: func(ctx context.Context) error { return c.patterns(ctx, "acl") }},
		{invariant: violationCertificates, run: c.certificates},
		{invariant: violationServers, run: c.servers},
		{invariant: violationLists, run: c.crtLists},
		{invariant: violationAuthorities, run: func(ctx context.Context) error { return c.authorities(ctx, authorityFiles) }},
		{invariant: violationAuthorities, run: func(ctx context.Context) error { return c.authorities(ctx, revocationFiles) }},
	}
	// Side by side: each mostly waits for an answer of many kilobytes.
	var wg sync.WaitGroup
	for i := range checks {
		wg.Go(func() { checks[i].err = checks[i].run(ctx) })
	}
	wg.Wait()
	var unread error
	for _, check := range checks {
		var drift *driftError
		if errors.As(check.err, &drift) {
			drift.invariant = check.invariant
			return drift
		}
		unread = cmp.Or(unread, check.err)
	}
	return unread
}

// compareNow compares a worker that is ours and remembers what it found. An
// error says that the worker could not be read, which is no finding.
func (a *agent) compareNow(ctx context.Context) error {
	if a.workerStatus() != api.WorkerOwned || a.current == nil || a.tree != nil {
		a.drift = nil
		return nil
	}
	err := a.compare(ctx, a.current)
	var drift *driftError
	if err != nil && !errors.As(err, &drift) {
		return fmt.Errorf("reading worker %d again: %w", a.seen.Info.PID, err)
	}
	if drift != nil && a.drift == nil {
		a.metrics.violations.WithLabelValues(drift.invariant).Inc()
		klog.FromContext(ctx).Error(drift, "The worker is not what its files say", "invariant", drift.invariant, "worker", a.seen.Info.PID)
	}
	a.drift = drift
	return nil
}

// comparison holds one worker against one set.
type comparison struct {
	view
	root  *os.Root
	files map[string]api.File
}

func (c *comparison) ask(ctx context.Context, command string) (string, error) {
	return askUnlocked(ctx, c.socket, c.prefix+command)
}

// patterns compares every map, or every list, that was loaded from a file of the
// set. It is named by number: a path may hold what the command line reads as
// more than a letter.
func (c *comparison) patterns(ctx context.Context, kind string) error {
	answer, err := c.ask(ctx, "show "+kind)
	if err != nil {
		return err
	}
	for _, loaded := range patternFiles(answer) {
		if _, ok := c.files[loaded.Path]; !ok || c.only != nil && !c.only.files[loaded.Path] {
			continue
		}
		file, err := c.root.Open(loaded.Path)
		if err != nil {
			return err
		}
		err = stream(ctx, c.socket, c.prefix+"show "+kind+" #"+loaded.ID, func(worker io.Reader) error { return sameRows(file, worker) })
		file.Close()
		var drift *driftError
		if errors.As(err, &drift) {
			drift.what = loaded.Path + ": " + drift.what
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// certificates compares the fingerprint of each certificate that the worker
// loaded from a file of the set. Keys are not shown, and need not be: HAProxy
// refuses one that does not fit.
func (c *comparison) certificates(ctx context.Context) error {
	answer, err := c.ask(ctx, "show ssl cert")
	if err != nil {
		return err
	}
	for path := range strings.SplitSeq(answer, "\n") {
		if open, ok := strings.CutPrefix(path, "*"); ok && c.files[open].Path != "" {
			return &driftError{what: open + ": a transaction is open"}
		}
		if _, ok := c.files[path]; !ok || strings.ContainsAny(path, " ;<\"'") {
			continue
		}
		shown, err := c.ask(ctx, "show ssl cert "+path)
		if err != nil {
			return err
		}
		_, got, ok := strings.Cut(shown, "SHA1 FingerPrint: ")
		if !ok {
			continue // not shown by this version
		}
		got, _, _ = strings.Cut(got, "\n")
		want, err := c.fingerprint(path)
		if err != nil {
			return err
		}
		if want != "" && !strings.EqualFold(strings.TrimSpace(got), want) {
			return &driftError{what: path + ": the worker has another certificate"}
		}
	}
	return nil
}

// fingerprint is that of the first certificate in a file, empty without one.
func (c *comparison) fingerprint(path string) (string, error) {
	content, err := c.root.ReadFile(path)
	if err != nil {
		return "", err
	}
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			sum := sha1.Sum(block.Bytes) //nolint:gosec // compared with HAProxy's own
			return hex.EncodeToString(sum[:]), nil
		}
	}
	return "", nil
}

func (c *comparison) servers(ctx context.Context) error {
	read := c.view.servers
	if read == nil {
		read = readServers(func() ([]byte, error) { return c.root.ReadFile(api.ConfigPath) })
	}
	if c.only == nil || len(c.only.backends) > maxBackendsAlone {
		return c.serversOf(ctx, "", read)
	}
	for name := range c.only.backends {
		if err := c.serversOf(ctx, name, read); err != nil {
			return err
		}
	}
	return nil
}

// serversOf compares the servers of one backend, or of all without a name.
func (c *comparison) serversOf(ctx context.Context, backend string, read serverReader) error {
	var reading errgroup.Group // while HAProxy writes its answer
	reading.Go(func() error {
		_, err := read()
		return err
	})
	err := stream(ctx, c.socket, c.prefix+strings.TrimSpace("show servers state "+backend), func(answer io.Reader) error {
		if err := reading.Wait(); err != nil {
			return err
		}
		if want, _ := read(); want != nil {
			return checkServers(answer, want, backend)
		}
		return nil
	})
	return cmp.Or(reading.Wait(), err)
}
