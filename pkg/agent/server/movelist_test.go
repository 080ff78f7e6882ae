package server

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

// listed is an output whose listener has its certificates from a list, and asks
// clients for one of its own.
func (p *pod) listed(port int, names ...string) output {
	p.t.Helper()
	o := output{
		api.ConfigPath: p.output("tls")[api.ConfigPath] + fmt.Sprintf("    bind 127.0.0.1:%d ssl ca-file auth/ca.pem crl-file auth/crl.pem verify optional crt-list certs/list.crtlist\n", port),
		"auth/ca.pem":  string(p.certs.pem()), "auth/crl.pem": p.certs.revocations(p.t, 1),
	}
	list := "# who answers\n"
	for _, name := range names {
		o = o.certificateFor(p, name)
		list += "certs/" + name + ".pem [alpn h2,http/1.1] " + name + "\n"
	}
	return o.with("certs/list.crtlist", list)
}

func (o output) certificateFor(p *pod, name string) output {
	p.t.Helper()
	certificate, key := p.certs.pair(p.t, name)
	return o.with("certs/"+name+".pem", string(certificate)+string(key))
}

// revocations is a list of revoked certificates.
func (a *authority) revocations(t *testing.T, number int64, serials ...int64) string {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(number), ThisUpdate: time.Now().Add(time.Duration(number-60) * time.Minute), NextUpdate: time.Now().Add(time.Hour)}
	for _, serial := range serials {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: big.NewInt(serial), RevocationTime: time.Now()})
	}
	raw, err := x509.CreateRevocationList(rand.Reader, list, a.certificate, a.key)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: raw}))
}

// shown is the serial number of the certificate that answers for a name.
func (p *pod) shown(port int, name string, own ...tls.Certificate) (string, error) {
	config := &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}
	if len(own) > 0 { // whether the server asks for one of its authority or not
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own[0], nil }
	}
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), config)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	// With TLS 1.3 a refused certificate shows up at the first read.
	_, err = fmt.Fprintf(conn, "GET / HTTP/1.0\r\n\r\n")
	if _, readErr := conn.Read(make([]byte, 1)); err == nil {
		err = readErr
	}
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), err
}

func (p *pod) mustShow(port int, o output, name string, from string) {
	p.t.Helper()
	block, rest := pem.Decode([]byte(o[from]))
	for block != nil && block.Type != "CERTIFICATE" {
		block, rest = pem.Decode(rest)
	}
	want := parseCertificate(p.t, block.Bytes).SerialNumber.String()
	if got, err := p.shown(port, name); err != nil || got != want {
		p.t.Errorf("%s is answered by %s, want that of %s, %s: %v", name, got, from, want, err)
	}
}

// TestListOperations: hosts come and go, with their certificates, beneath the
// worker, and what clients are shown is what the list says.
func TestListOperations(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	port := freePort(t)
	const list = "certs/list.crtlist"
	current := p.listed(port, "default.example", "one.example")
	p.mustLoad(current)
	entry := func(kind plan.OperationKind, cert, line string) plan.Operation {
		return plan.Operation{Kind: kind, Path: list, Key: cert, Value: line}
	}

	t.Log("a host more")
	next := current.certificateFor(p, "two.example")
	next = next.with(list, next[list]+"certs/two.example.pem two.example *.two.example !no.two.example\n")
	p.mustMove(next, plan.Operation{Kind: plan.OpCertAdd, Path: "certs/two.example.pem"},
		entry(plan.OpCRTListAdd, "certs/two.example.pem", "two.example *.two.example !no.two.example"))
	p.mustShow(port, next, "x.two.example", "certs/two.example.pem")
	p.mustShow(port, next, "no.two.example", "certs/default.example.pem")

	t.Log("its certificate renewed, which was added beneath the worker")
	next = next.certificateFor(p, "two.example")
	p.mustMove(next, plan.Operation{Kind: plan.OpCertReplace, Path: "certs/two.example.pem"})
	p.mustShow(port, next, "two.example", "certs/two.example.pem")

	t.Log("another line for a host, the new one first")
	next = next.with(list, strings.Replace(next[list], "certs/one.example.pem [alpn h2,http/1.1] one.example\n", "", 1)+"certs/one.example.pem [ssl-min-ver TLSv1.2 alpn h2] one.example www.one.example\n")
	p.mustMove(next, entry(plan.OpCRTListAdd, "certs/one.example.pem", "[ssl-min-ver TLSv1.2 alpn h2] one.example www.one.example"),
		entry(plan.OpCRTListDelete, "certs/one.example.pem", "[alpn h2,http/1.1] one.example"))
	p.mustShow(port, next, "www.one.example", "certs/one.example.pem")

	t.Log("a host less")
	gone := next.with(list, strings.Replace(next[list], "certs/two.example.pem two.example *.two.example !no.two.example\n", "", 1))
	delete(gone, "certs/two.example.pem")
	p.mustMove(gone, entry(plan.OpCRTListDelete, "certs/two.example.pem", "two.example *.two.example !no.two.example"),
		plan.Operation{Kind: plan.OpCertDelete, Path: "certs/two.example.pem"})
	p.mustShow(port, gone, "two.example", "certs/default.example.pem")

	t.Log("a forced reload changes nothing")
	forced := p.request(gone)
	forced.Manifest.Mode = api.ModeReload
	if result, err := p.client.Apply(t.Context(), p.target, forced); err != nil || !result.OK {
		t.Fatalf("forced reload: %+v, %v", result, err)
	}
	p.mustRun(gone, "after a forced reload")
	p.mustShow(port, gone, "www.one.example", "certs/one.example.pem")
}

// TestListOperationsFallBack: what would not make the list of the files ends as
// a reload of it, with nothing of the attempt left.
func TestListOperationsFallBack(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	port := freePort(t)
	const list = "certs/list.crtlist"
	start := p.listed(port, "default.example", "one.example")
	more := start.certificateFor(p, "two.example")
	more = more.with(list, more[list]+"certs/two.example.pem\n")
	store := plan.Operation{Kind: plan.OpCertAdd, Path: "certs/two.example.pem"}
	add := plan.Operation{Kind: plan.OpCRTListAdd, Path: list, Key: "certs/two.example.pem"}
	after := func(o output) output { return o.edit(t, api.ConfigPath, list, list+" crt certs/one.example.pem") }
	folder := func(o output) output { return o.edit(t, api.ConfigPath, "crt-list "+list, "crt certs") }
	noList := folder(start)
	delete(noList, list)
	tests := []struct {
		name      string
		from      output
		meanwhile func()
		to        output
		ops       []plan.Operation
		tried     int
	}{
		{"an entry of a certificate that is not stored", start, nil, more, []plan.Operation{add}, 1},
		{"a certificate that no entry names", start, nil, more, []plan.Operation{store}, 1},
		{"a certificate without its key", start, nil, more.with("certs/two.example.pem", more["certs/two.example.pem"][:strings.Index(more["certs/two.example.pem"], "-----BEGIN EC")]+start["certs/one.example.pem"]), []plan.Operation{store, add}, 1},
		{"the certificate that answers for every other name", start, nil, start.with(list, strings.Replace(start[list], "certs/default.example.pem [alpn h2,http/1.1] default.example\n", "", 1)),
			[]plan.Operation{{Kind: plan.OpCRTListDelete, Path: list, Key: "certs/default.example.pem", Value: "[alpn h2,http/1.1] default.example"}}, 1},
		{"an entry that is not there", start, nil, more, []plan.Operation{{Kind: plan.OpCRTListDelete, Path: list, Key: "certs/two.example.pem"}}, 1},
		{"a list with certificates after it", after(start), nil, after(more), []plan.Operation{store, add}, 2},
		{"a folder that listeners load", noList, nil, noList.with("certs/two.example.pem", more["certs/two.example.pem"]), []plan.Operation{store}, 1},
		{"entries of somebody else", start, func() { p.byHand("add ssl crt-list " + list + " certs/one.example.pem") }, more, []plan.Operation{store, add}, 2},
		{"a transaction of somebody else", start, func() { p.byHand("set ssl cert certs/one.example.pem <<\n" + start["certs/one.example.pem"]) }, more, []plan.Operation{store, add}, 1},
		{"a certificate that somebody stored", start, func() { p.byHand("new ssl cert certs/two.example.pem") }, more, []plan.Operation{store, add}, 1},
		{"a certificate in use", more, nil, start, []plan.Operation{{Kind: plan.OpCertDelete, Path: "certs/two.example.pem"}}, 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p.t = t
			p.apply(tc.from)
			p.mustRun(tc.from, "before")
			if tc.meanwhile == nil {
				tc.meanwhile = func() {}
			}
			if result := p.moveAfter(tc.meanwhile, tc.to, tc.ops...); len(result.OpResults) > tc.tried || result.Mode != api.OutcomeReload && result.Mode != api.OutcomeRejected {
				t.Errorf("ended as %s after %+v", result.Mode, result.OpResults)
			}
			if state := p.state(true); state.InvariantViolation != "" || state.WorkerOpsPlanID != "" {
				t.Errorf("afterwards: %+v", state)
			}
		})
	}
}

// client is a certificate that a client shows.
func (a *authority) client(t *testing.T, name string) tls.Certificate {
	t.Helper()
	certificate, key := a.pair(t, name)
	pair, err := tls.X509KeyPair(certificate, key)
	must(t, err)
	return pair
}

// TestAuthorityOperations: one more authority is trusted at once. A version that
// loses certificates by that reloads in the same apply, and so does an authority
// or a certificate that is trusted no longer.
func TestAuthorityOperations(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	port := freePort(t)
	current := p.listed(port, "default.example", "one.example")
	p.mustLoad(current)
	newcomer := namedAuthority(t, "newcomer")
	client := newcomer.client(t, "client")
	if _, err := p.shown(port, "one.example", client); err == nil {
		t.Fatal("a client of an authority that nobody named was let in")
	}
	replace := func(path string) plan.Operation { return plan.Operation{Kind: plan.OpCAReplace, Path: path} }
	can := p.state(false).CanDo([]plan.Operation{replace("x")})
	t.Logf("HAProxy %s replaces authorities in place: %t", p.state(false).HAProxy.Version, can)
	step := func(what string, inPlace bool, o output, ops ...plan.Operation) {
		t.Helper()
		if can && inPlace {
			p.mustMove(o, ops...)
		} else if result := p.mustFallBack(func() {}, o, ops...); !can && len(result.OpResults) != 0 {
			t.Errorf("%s: tried %+v", what, result.OpResults)
		}
	}
	trusted := current.with("auth/ca.pem", current["auth/ca.pem"]+string(newcomer.pem())).with("auth/crl.pem", current["auth/crl.pem"]+newcomer.revocations(t, 1))
	step("one more", true, trusted, replace("auth/ca.pem"), replace("auth/crl.pem"))
	if _, err := p.shown(port, "one.example", client); err != nil {
		t.Errorf("a client of the new authority: %v", err)
	}
	// The certificates beside it are still those that later changes reach.
	renewed := trusted.certificateFor(p, "one.example")
	p.mustMove(renewed, plan.Operation{Kind: plan.OpCertReplace, Path: "certs/one.example.pem"})
	p.mustShow(port, renewed, "one.example", "certs/one.example.pem")

	fresh := renewed.with("auth/crl.pem", p.certs.revocations(t, 2)+newcomer.revocations(t, 2))
	step("a later list of the same revocations", true, fresh, replace("auth/crl.pem"))
	leaf, err := x509.ParseCertificate(client.Certificate[0])
	must(t, err)
	revoked := fresh.with("auth/crl.pem", p.certs.revocations(t, 3)+newcomer.revocations(t, 3, leaf.SerialNumber.Int64()))
	step("a certificate revoked", false, revoked, replace("auth/crl.pem"))
	if _, err := p.shown(port, "one.example", client); err == nil {
		t.Error("a revoked certificate was let in")
	}
	fewer := revoked.with("auth/ca.pem", string(p.certs.pem())).with("auth/crl.pem", p.certs.revocations(t, 4))
	step("an authority less", false, fewer, replace("auth/ca.pem"), replace("auth/crl.pem"))
	if state := p.state(true); state.InvariantViolation != "" {
		t.Errorf("afterwards: %s", state.InvariantViolation)
	}
}

// TestDriftOfListsAndAuthorities: what somebody changed by hand is found.
func TestDriftOfListsAndAuthorities(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	start := p.listed(freePort(t), "default.example", "one.example")
	other := string(newAuthority(t).pem())
	tests := []struct{ name, command, invariant string }{
		{"an entry more", "add ssl crt-list certs/list.crtlist certs/one.example.pem", violationLists},
		{"an entry less", "del ssl crt-list certs/list.crtlist certs/one.example.pem", violationLists},
		{"other authorities", "set ssl ca-file auth/ca.pem <<\n" + other + "\ncommit ssl ca-file auth/ca.pem", violationAuthorities},
		{"an open transaction of authorities", "set ssl ca-file auth/ca.pem <<\n" + other, violationAuthorities},
		{"an open transaction of revocations", "set ssl crl-file auth/crl.pem <<\n" + p.certs.revocations(t, 9), violationAuthorities},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p.t = t
			forced := p.request(start)
			forced.Manifest.Mode = api.ModeReload
			result, err := p.client.Apply(t.Context(), p.target, forced)
			must(t, err)
			if state := p.state(true); !result.OK || state.InvariantViolation != "" {
				t.Fatalf("before: %s, %+v", state.InvariantViolation, result.Error)
			}
			for command := range strings.SplitSeq(strings.ReplaceAll(tc.command, "\ncommit", "\x00commit"), "\x00") {
				p.byHand(command)
			}
			if state := p.state(true); state.InvariantViolation != tc.invariant {
				t.Errorf("found %q, want %q", state.InvariantViolation, tc.invariant)
			}
		})
	}
}
