package apiserver

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"time"
)

var errNoCertificate = errors.New("the serving certificate is not there")

// servingCertificate is what clients are shown now. Whoever renews it may forget to,
// and then every client fails at once, so it is told before and refused after.
type servingCertificate struct {
	current func() (certificate, key []byte)
	now     func() time.Time
}

// expiry is when nobody accepts it any more.
func (c servingCertificate) expiry() (time.Time, error) {
	content, _ := c.current()
	block, _ := pem.Decode(content)
	if block == nil {
		return time.Time{}, errNoCertificate
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the serving certificate: %w", err)
	}
	return leaf.NotAfter, nil
}

// ready fails once the certificate has expired. One that is not valid yet is no
// reason: it is the clients' clocks that count, and ours may be behind.
func (c servingCertificate) ready(*http.Request) error {
	expiry, err := c.expiry()
	if err != nil {
		return err
	}
	if c.now().After(expiry) {
		return fmt.Errorf("the serving certificate expired at %s", expiry.UTC().Format(time.RFC3339))
	}
	return nil
}

// remaining is how long it is still accepted, in seconds: negative after that, and
// nothing if it cannot be read, which readiness explains.
func (c servingCertificate) remaining() float64 {
	expiry, err := c.expiry()
	if err != nil {
		return 0
	}
	return expiry.Sub(c.now()).Seconds()
}
