package mtls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// ErrNoCertificate says that the peer showed none. It has no role at all.
var ErrNoCertificate = errors.New("no client certificate")

// ErrUntrusted says that the peer's certificate does not lead to our trust
// today, whatever it did at the handshake.
var ErrUntrusted = errors.New("client certificate is not trusted")

// RoleError says that a trusted certificate is for another role.
type RoleError struct {
	Want string
	Got  []string
}

func (e *RoleError) Error() string {
	return fmt.Sprintf("certificate is for %q, not for %s", e.Got, e.Want)
}

// Server is a configuration for a listener. A client may come without a
// certificate, because health needs none; Authorize decides per request.
func (f *Files) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"http/1.1"},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			now := f.get(hello.Context())
			return &tls.Config{
				MinVersion:   tls.VersionTLS13,
				NextProtos:   []string{"http/1.1"},
				Certificates: []tls.Certificate{now.certificate},
				ClientAuth:   tls.VerifyClientCertIfGiven,
				ClientCAs:    now.roots,
			}, nil
		},
	}
}

// Client is a configuration for one connection to a server of that role. It
// holds what the files hold now, so it must not be kept for the next one.
func (f *Files) Client(ctx context.Context, serverName string) *tls.Config {
	now := f.get(ctx)
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"http/1.1"},
		Certificates: []tls.Certificate{now.certificate},
		RootCAs:      now.roots,
		ServerName:   serverName,
	}
}

// Authorize accepts a connection whose certificate leads to today's trust and
// carries the role among its DNS names, literally. It verifies again because
// a connection outlives both its certificate and the trust of its handshake.
func (f *Files) Authorize(ctx context.Context, conn *tls.ConnectionState, role string) error {
	if conn == nil || len(conn.PeerCertificates) == 0 {
		return ErrNoCertificate
	}
	leaf := conn.PeerCertificates[0]
	intermediates := x509.NewCertPool()
	for _, c := range conn.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots:         f.get(ctx).roots,
		Intermediates: intermediates,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	if !slices.Contains(leaf.DNSNames, role) {
		return &RoleError{Want: role, Got: leaf.DNSNames}
	}
	return nil
}
