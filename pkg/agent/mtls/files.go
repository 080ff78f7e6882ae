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

// material is one consistent reading of the three files.
type material struct {
	certificate tls.Certificate
	roots       *x509.CertPool
}

// Files follows the three files in a folder.
type Files struct {
	dir string

	mu      sync.Mutex
	raw     [3][]byte
	current *material
	checked time.Time
	problem string
}

// Open reads the folder once. It fails when there is nothing to start with;
// afterwards the last good reading stays in use.
func Open(dir string) (*Files, error) {
	f := &Files{dir: dir}
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
	var raw [3][]byte
	for i, name := range []string{CertFile, KeyFile, CAFile} {
		content, err := readFile(filepath.Join(f.dir, name))
		if err != nil {
			return err
		}
		raw[i] = content
	}
	if f.current != nil && bytes.Equal(raw[0], f.raw[0]) && bytes.Equal(raw[1], f.raw[1]) && bytes.Equal(raw[2], f.raw[2]) {
		return nil
	}
	certificate, err := tls.X509KeyPair(raw[0], raw[1])
	if err != nil {
		// Its text names what is wrong and never quotes the input.
		return fmt.Errorf("%s and %s: %w", CertFile, KeyFile, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(raw[2]) {
		return fmt.Errorf("%s holds no certificate", CAFile)
	}
	f.raw, f.current = raw, &material{certificate: certificate, roots: roots}
	return nil
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
