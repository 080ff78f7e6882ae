package render

import (
	"crypto/tls"
	"fmt"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// added is a file whose name the data gave.
type added struct {
	file    fileTemplate
	content string
}

// certificate is the template function of that name: it adds a certificate whose
// file name depends on the data, as those of many tenants do, and returns its
// path. One that HAProxy could not load is an error here, where the object that
// holds it can be named.
func (r *run) certificate(name, pem string) (string, error) {
	if !r.collects {
		return "", fmt.Errorf("certificate belongs into %s", configTemplate)
	}
	r.fleet()
	path := certsFolder + name
	if err := checkFileName(path, name); err != nil {
		return "", err
	}
	if r.declared[path] {
		return "", fmt.Errorf("%q is declared in sslCertificates already", name)
	}
	if at, ok := r.addedAt[path]; ok {
		if r.added[at].content != pem {
			return "", fmt.Errorf("%q is added twice with different content", name)
		}
		return path, nil
	}
	if err := checkKeyPair(pem); err != nil {
		return "", fmt.Errorf("%q: %w", name, err)
	}
	if files := len(r.declared) + len(r.added) + 1; files >= api.MaxFiles {
		return "", tooLarge("", "%d files exceed the limit of %d", files+1, api.MaxFiles)
	}
	if r.addedAt == nil {
		r.addedAt = map[string]int{}
	}
	r.addedAt[path] = len(r.added)
	r.added = append(r.added, added{file: fileTemplate{path: path, family: checkpoint.Certificate}, content: pem})
	return path, nil
}

// checkKeyPair refuses what is no certificate with its key. What it says holds
// nothing of either.
func checkKeyPair(pem string) error {
	_, err := tls.X509KeyPair([]byte(pem), []byte(pem))
	return err
}

// isKeyPair is the template function of that name, for templates that go on
// without a certificate that is none.
func isKeyPair(pem string) bool { return checkKeyPair(pem) == nil }
