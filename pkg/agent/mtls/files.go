package mtls

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Names of the files, as in a Secret of type kubernetes.io/tls with its CA.
const (
	CertFile = "tls.crt"
	KeyFile  = "tls.key"
	CAFile   = "ca.crt"
)

// recheckInterval bounds how often peers can make this process read files: a
// handshake needs no authentication.
const recheckInterval = time.Second

// maxFileBytes bounds each file; a Secret holds no more than 1 MiB.
const maxFileBytes = 1 << 20

// MaxPreviousTrust is the longest that trust may outlive its removal.
const MaxPreviousTrust = 24 * time.Hour

// maxPrevious bounds how many earlier trusts are kept at once; a rotation needs
// one.
const maxPrevious = 4

// dataLink is what a mounted Secret swaps: its files are links through it.
const dataLink = "..data"

// material is one consistent reading of the three files.
type material struct {
	certificate tls.Certificate
	roots       *x509.CertPool
}

// removedTrust is a ca.crt that was replaced.
type removedTrust struct {
	pem   []byte
	until time.Time
}

// Files follows the three files in a folder.
type Files struct {
	dir  string
	keep time.Duration

	mu       sync.Mutex
	raw      [3][]byte
	current  *material
	previous []removedTrust
	checked  time.Time
	problem  string
}

// Open reads the folder once. It fails when there is nothing to start with;
// afterwards the last good reading stays in use. Trust that is replaced while
// this process runs is kept beside the new one for as long as keep says, so that
// peers which get their new certificates later are not cut off.
func Open(dir string, keep time.Duration) (*Files, error) {
	if keep < 0 || keep > MaxPreviousTrust {
		return nil, fmt.Errorf("keeping previous trust for %s is not between 0 and %s", keep, MaxPreviousTrust)
	}
	f := &Files{dir: dir, keep: keep}
	if err := f.reload(); err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	f.checked = time.Now()
	return f, nil
}

// get re-reads the files when they were last looked at long enough ago.
func (f *Files) get(ctx context.Context) *material {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.checked) < recheckInterval {
		return f.current
	}
	f.checked = time.Now()
	problem := ""
	if err := f.reload(); err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != f.problem {
		klog.FromContext(ctx).Error(errors.New(problem), "Kept the previous certificates", "dir", f.dir)
	}
	f.problem = problem
	return f.current
}

func (f *Files) reload() error {
	f.expire()
	raw, err := f.read()
	if err != nil {
		return err
	}
	if f.current != nil && bytes.Equal(raw[0], f.raw[0]) && bytes.Equal(raw[1], f.raw[1]) && bytes.Equal(raw[2], f.raw[2]) {
		return nil
	}
	certificate, err := tls.X509KeyPair(raw[0], raw[1])
	if err != nil {
		// Its text names what is wrong and never quotes the input.
		return fmt.Errorf("%s and %s: %w", CertFile, KeyFile, err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(raw[2]) {
		return fmt.Errorf("%s holds no certificate", CAFile)
	}
	if f.current != nil && f.keep > 0 && !bytes.Equal(raw[2], f.raw[2]) {
		f.remove(raw[2])
	}
	f.raw, f.current = raw, &material{certificate: certificate, roots: f.trust(raw[2])}
	return nil
}

// read takes all three files from one generation of the Secret. Through the
// links one by one, a swap in between would mix two.
func (f *Files) read() (raw [3][]byte, err error) {
	dir := f.dir
	if data, err := filepath.EvalSymlinks(filepath.Join(dir, dataLink)); err == nil {
		dir = data
	}
	for i, name := range []string{CertFile, KeyFile, CAFile} {
		if raw[i], err = readFile(filepath.Join(dir, name)); err != nil {
			return raw, err
		}
	}
	return raw, nil
}

// remove keeps the present trust until its deadline. What comes back is no
// longer removed, and a deadline is never moved by another rotation.
func (f *Files) remove(next []byte) {
	f.previous = slices.DeleteFunc(f.previous, func(r removedTrust) bool {
		return bytes.Equal(r.pem, next) || bytes.Equal(r.pem, f.raw[2])
	})
	f.previous = append(f.previous, removedTrust{pem: f.raw[2], until: time.Now().Add(f.keep)})
	if len(f.previous) > maxPrevious {
		f.previous = f.previous[1:]
	}
}

// expire forgets previous trust whose time is up, readable files or not.
func (f *Files) expire() {
	kept := slices.DeleteFunc(slices.Clone(f.previous), func(r removedTrust) bool { return !time.Now().Before(r.until) })
	if len(kept) == len(f.previous) {
		return
	}
	f.previous = kept
	f.current = &material{certificate: f.current.certificate, roots: f.trust(f.raw[2])}
}

func (f *Files) trust(present []byte) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(present)
	for _, r := range f.previous {
		roots.AppendCertsFromPEM(r.pem)
	}
	return roots
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d", path, info.Size(), maxFileBytes)
	}
	return os.ReadFile(path)
}
