package aggregation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/test/certificates"
	"github.com/holdfast-project/holdfast/test/owncluster"
)

const (
	// swapLimit is how soon a renewed certificate has to be shown.
	swapLimit = 10 * time.Second
	// askEvery is how often the impatient client asks.
	askEvery = 100 * time.Millisecond
)

// shown is the serial number of the certificate that a new connection is shown. It
// must be of an authority of the bundle, unless there is no bundle.
func shown(ctx context.Context, bundle *x509.CertPool) (int64, error) {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: bundle == nil, RootCAs: bundle, ServerName: servingName, MinVersion: tls.VersionTLS13}}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(servedAt, servedPort))
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func showing(serial int64) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		got, err := shown(ctx, nil)
		if err == nil && got != serial {
			err = fmt.Errorf("the certificate is number %d, want %d", got, serial)
		}
		return err
	}
}

// asking is a client that asks through the aggregator every 100 ms, and shakes hands
// with the server itself beside that, trusting what the aggregator is told to.
type asking struct {
	asked    atomic.Int64
	failures []error
	stop     func()
}

func (s *server) startAsking(t *testing.T) *asking {
	t.Helper()
	client := aggregator(t, owncluster.Config(t))
	ctx, cancel := context.WithCancel(t.Context())
	a := &asking{}
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(askEvery)
		defer ticker.Stop()
		for {
			got, err := client.get(ctx, rckpts)
			if err == nil && got.code != http.StatusOK {
				err = fmt.Errorf("%d %.300s", got.code, got.body)
			}
			_, direct := shown(ctx, s.bundle.Load())
			if ctx.Err() != nil {
				return
			}
			if err := errors.Join(err, direct); err != nil {
				a.failures = append(a.failures, fmt.Errorf("%s: %w", time.Now().Format(time.StampMilli), err))
			}
			a.asked.Add(1)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	a.stop = func() { cancel(); running.Wait() }
	t.Cleanup(a.stop)
	return a
}

// more returns when so many more requests were answered.
func (a *asking) more(t *testing.T, count int64) {
	t.Helper()
	before := a.asked.Load()
	eventually(t, "more requests were answered", settle, func(context.Context) error {
		if now := a.asked.Load(); now < before+count {
			return fmt.Errorf("%d of %d", now-before, count)
		}
		return nil
	})
}

// noneFailed ends the asking, tells how much it was and wants every answer.
func (a *asking) noneFailed(t *testing.T, when string) {
	t.Helper()
	a.stop()
	fmt.Printf("%s: %d requests, %d failed\n", when, a.asked.Load(), len(a.failures))
	if len(a.failures) > 0 {
		t.Errorf("these failed:\n%v", errors.Join(a.failures...))
	}
}

// TestP7aARenewedCertificateIsShownWithoutARestart: files are swapped as a mounted
// Secret swaps them, and whoever watches goes on watching.
func TestP7aARenewedCertificateIsShownWithoutARestart(t *testing.T) {
	s := serve(t, "")
	watch := watching(t)
	process := s.process.Pid
	var slowest time.Duration
	for serial := int64(2); serial <= 4; serial++ {
		s.certs.set(pair(s.authority, serial))
		slowest = max(slowest, eventually(t, "the renewed certificate is shown", swapLimit, showing(serial)))
	}
	if !s.running() || s.process.Pid != process {
		t.Error("the process was restarted")
	}
	select {
	case err := <-watch:
		t.Errorf("the open watch ended: %v", err)
	default:
	}
	fmt.Printf("P7a: three renewals, the slowest was shown after %.2f s\n", slowest.Seconds())
}

// watching opens a watch through the aggregator and tells why it ended.
func watching(t *testing.T) <-chan error {
	t.Helper()
	client := aggregator(t, owncluster.Config(t))
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, client.host+rckpts+"?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal("opening a watch: ", response, err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, response.Body)
		ended <- errors.Join(err, response.Body.Close())
	}()
	t.Cleanup(cancel)
	return ended
}

// TestP7bRotationToANewAuthorityFailsNoRequest: in the order of docs/install.md, the
// bundle holds both authorities before the server shows what the new one issued.
func TestP7bRotationToANewAuthorityFailsNoRequest(t *testing.T) {
	s := serve(t, "")
	old, next := s.authority, certificates.NewAuthority(t, "second")
	ask := s.startAsking(t)
	const each = 10
	ask.more(t, each)
	s.trust(append(append([]byte{}, old.PEM...), next.PEM...))
	ask.more(t, each)
	s.authority = next
	s.certs.set(pair(next, 2))
	eventually(t, "the new authority's certificate is shown", swapLimit, showing(2))
	ask.more(t, each)
	s.trust(next.PEM)
	ask.more(t, each)
	if err := available(t, "True")(t.Context()); err != nil {
		t.Error(err)
	}
	ask.noneFailed(t, "P7b: in a rotation")
}

// TestP7bARenewalOfTheAuthorityFailsNoRequest: cert-manager replaces the bundle when
// it renews the authority, and the server's certificate weeks later. The manifests
// have the authority keep its key for that.
func TestP7bARenewalOfTheAuthorityFailsNoRequest(t *testing.T) {
	s := serve(t, "")
	renewed := s.authority.Renew()
	ask := s.startAsking(t)
	const each = 10
	ask.more(t, each)
	s.trust(renewed.PEM)
	ask.more(t, each)
	s.authority = renewed
	s.certs.set(pair(renewed, 2))
	eventually(t, "the renewed authority's certificate is shown", swapLimit, showing(2))
	ask.more(t, each)
	ask.noneFailed(t, "P7b: beside a renewal of the authority")
}

// TestP7cManifestsLeaveTheBundleToItsOwner: two that apply the manifests again and
// again, with two tools, beside the one that sets the bundle.
func TestP7cManifestsLeaveTheBundleToItsOwner(t *testing.T) {
	s := serve(t, "")
	ask := s.startAsking(t)
	next := certificates.NewAuthority(t, "second")
	bundle := append(append([]byte{}, s.authority.PEM...), next.PEM...)
	s.trust(bundle)
	const rounds = 2
	for range rounds {
		for _, manager := range []string{"gitops", "other"} {
			kube(t, "apply", "--server-side", "--force-conflicts", "--field-manager="+manager, "-f", "../../manifests/base/apiserver/apiservice.yaml")
		}
		kube(t, "apply", "-f", "../../manifests/base/apiserver/apiservice.yaml")
		got := kube(t, "get", "apiservice", apiService, "-o", "go-template={{base64decode .spec.caBundle}}")
		if got != string(bundle) {
			t.Errorf("after the manifests were applied the bundle is\n%s\nwant\n%s", got, bundle)
		}
	}
	ask.noneFailed(t, "P7c: beside manifests that are applied again")
}
