package apiserver

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-project/holdfast/test/certificates"
)

// withoutTrust is how long the trust is away. Nothing of the server's waits longer
// before it looks again.
const withoutTrust = 3 * time.Second

// TestP5TheFrontProxysAuthorityRotates: the process is never restarted, and the
// aggregator's new certificate counts as soon as the cluster says so.
func TestP5TheFrontProxysAuthorityRotates(t *testing.T) {
	d := newDelegator(t)
	one, two := certificates.NewAuthority(t, "one"), certificates.NewAuthority(t, "two")
	d.tell(trust(nil, one))
	d.serve(nil)
	byOne, byTwo := as(one.Pair(front, nil), "ann"), as(two.Pair(front, nil), "ann")
	d.soon("the first authority's", byOne, 200)
	d.soon("the second's before it is told", byTwo, 401)
	watching := d.watch(byOne.certificate)

	d.tell(trust(nil, one, two))
	d.soon("the second's while both are told", byTwo, 200)
	d.soon("the first's while both are told", byOne, 200)
	d.tell(trust(nil, two))
	d.soon("the first's when it is told no more", byOne, 401)
	d.soon("the second's then", byTwo, 200)
	// As docs/security.md says: who was let in stays until the stream ends.
	select {
	case <-watching:
		t.Error("the rotation ended an open watch")
	default:
	}
}

// watch opens a watch as the aggregator does, and closes the channel when it ends.
func (d *delegator) watch(certificate *tls.Certificate) <-chan struct{} {
	d.Helper()
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*certificate}}
	ctx, cancel := context.WithCancel(d.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.at+rckpts+"?watch=true", nil)
	if err != nil {
		d.Fatal(err)
	}
	req.Header.Set("X-Remote-User", "ann")
	response, err := (&http.Transport{TLSClientConfig: config}).RoundTrip(req)
	if err != nil || response.StatusCode != http.StatusOK {
		d.Fatal("opening a watch: ", response, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer response.Body.Close()
		buffer := make([]byte, 1024)
		for {
			if _, err := response.Body.Read(buffer); err != nil {
				return
			}
		}
	}()
	d.Cleanup(func() { cancel(); <-ended })
	return ended
}

func TestP5TheNamesThatMaySpeakForOthersChange(t *testing.T) {
	d := newDelegator(t)
	authority := certificates.NewAuthority(t, "one")
	d.tell(trust(nil, authority))
	d.serve(nil)
	old, renamed := as(authority.Pair(front, nil), "ann"), as(authority.Pair("aggregator", nil), "ann")
	d.soon("the name that is told", old, 200)
	d.soon("another name", renamed, 401)
	changed := trust(nil, authority)
	changed["requestheader-allowed-names"] = `["aggregator"]`
	d.tell(changed)
	d.soon("the new name", renamed, 200)
	d.soon("the name of before", old, 401)
}

// TestP5TrustThatIsAwayForAWhileIsKept: what was told last counts, for those that it
// lets in and for those that it does not.
func TestP5TrustThatIsAwayForAWhileIsKept(t *testing.T) {
	d := newDelegator(t)
	one, two := certificates.NewAuthority(t, "one"), certificates.NewAuthority(t, "two")
	d.tell(trust(nil, one))
	d.serve(nil)
	byOne, byTwo := as(one.Pair(front, nil), "ann"), as(two.Pair(front, nil), "ann")
	d.soon("the authority that is told", byOne, 200)
	d.untell()
	for began := time.Now(); time.Since(began) < withoutTrust; {
		for _, tc := range []struct {
			who  string
			by   visit
			want int
		}{{"whom it trusted", byOne, 200}, {"whom it did not", byTwo, 401}, {"nobody in particular", visit{}, 401}} {
			if code, body := d.code(tc.by); code != tc.want {
				t.Fatalf("without trust, %s: %d, want %d: %.200s", tc.who, code, tc.want, body)
			}
		}
	}
	d.tell(trust(nil, two))
	d.soon("the authority of the trust that came back", byTwo, 200)
	d.soon("the one of before", byOne, 401)
}

// TestP5TrustThatCannotBeReadAtTheStartIsNoReasonToStartWithoutIt: the process ends
// and says what it may not read, and serves nobody before.
func TestP5TrustThatCannotBeReadAtTheStartIsNoReasonToStartWithoutIt(t *testing.T) {
	d := newDelegator(t)
	allowed := d.inner
	d.inner = roundTripper(func(req *http.Request) (*http.Response, error) {
		if strings.Contains(req.URL.Path, "/configmaps") {
			return forbidden(req), nil
		}
		return allowed.RoundTrip(req)
	})
	o, at := d.options(t)
	d.at = at
	err := run(t.Context(), o, prometheus.NewRegistry())
	if err == nil || !strings.Contains(err.Error(), "configmap") || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("error %v, want one that says which ConfigMap may not be read", err)
	}
}
