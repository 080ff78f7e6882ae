package apiserver

import (
	"crypto/tls"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/test/certificates"
)

// forged are headers that would make anybody the master of the cluster.
func forged(more ...map[string][]string) map[string][]string {
	headers := map[string][]string{"X-Remote-User": {"kubernetes-admin"}, "X-Remote-Group": {"system:masters"}}
	for _, m := range more {
		for name, values := range m {
			headers[name] = values
		}
	}
	return headers
}

// TestP6ForgedIdentityIsNeverBelieved: what a request says of its sender counts if
// the aggregator's certificate comes with it, and else the sender is who he can
// prove to be, or nobody.
func TestP6ForgedIdentityIsNeverBelieved(t *testing.T) {
	d := newDelegator(t)
	fronts, clients, stranger := certificates.NewAuthority(t, "fronts"), certificates.NewAuthority(t, "clients"), certificates.NewAuthority(t, "stranger")
	d.tell(trust(clients, fronts))
	d.serve(nil)
	aggregator := fronts.Pair(front, nil)
	d.soon("the aggregator is known", as(aggregator, "first"), 200)
	d.soon("clients are known", visit{certificate: clients.Pair("first", nil)}, 200)
	token := func(name string) map[string][]string { return map[string][]string{"Authorization": {"Bearer " + name}} }

	const nobody = "" // the server asked about no one
	tests := []struct {
		name        string
		certificate *tls.Certificate
		headers     map[string][]string
		code        int
		asked       string
	}{
		{"no certificate", nil, forged(), 401, nobody},
		{"a certificate of an unknown authority", stranger.Pair(front, nil), forged(), 401, nobody},
		{"the right authority and another name", fronts.Pair("front-proxy-client2", nil), forged(), 401, nobody},
		{"a user's certificate is that user", clients.Pair("cate", nil), forged(), 200, "cate [system:authenticated] map[]"},
		{"a user's certificate of the aggregator's name", clients.Pair(front, nil), forged(), 200, front + " [system:authenticated] map[]"},
		{"a token is its owner", nil, forged(token(tokenOf + "toni")), 200, "toni [users system:authenticated] map[]"},
		{"a token is its owner, whatever certificate comes with it", stranger.Pair(front, nil), forged(token(tokenOf + "tess")), 200, "tess [users system:authenticated] map[]"},
		{"a bad token", nil, forged(token("x")), 401, nobody},
		{"in other case", nil, map[string][]string{"x-remote-user": {"kubernetes-admin"}, "X-REMOTE-GROUP": {"system:masters"}}, 401, nobody},
		{"doubled", nil, map[string][]string{"X-Remote-User": {"a", "kubernetes-admin"}, "X-Remote-Group": {"a", "system:masters"}}, 401, nobody},
		{"with extras that hold escapes", nil, forged(map[string][]string{"X-Remote-Extra-%2e%2e%2fscopes": {"all\tof\tit"}}), 401, nobody},
		{"an empty name from the aggregator", aggregator, map[string][]string{"X-Remote-User": {""}, "X-Remote-Group": {"system:masters"}}, 401, nobody},
		{"no name from the aggregator", aggregator, map[string][]string{"X-Remote-Group": {"system:masters"}}, 401, nobody},
		{"a doubled name from the aggregator is the first", aggregator, map[string][]string{"X-Remote-User": {"one", "two"}}, 200, "one [system:authenticated] map[]"},
		{
			"an extra from the aggregator is unescaped once", aggregator,
			map[string][]string{"X-Remote-User": {"ann"}, "X-Remote-Group": {"dev", "ops"}, "X-Remote-Extra-Acme%2ecom%2fproject": {"a%2eb"}},
			200, "ann [dev ops system:authenticated] map[acme.com/project:[a%2eb]]",
		},
		{"headers that are not told are no identity", aggregator, map[string][]string{"X-Forwarded-User": {"ann"}}, 401, nobody},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			d.forget()
			code, body := d.code(visit{certificate: tc.certificate, headers: tc.headers})
			if code != tc.code {
				t.Errorf("code %d, want %d: %.200s", code, tc.code, body)
			}
			if diff := cmp.Diff(tc.asked, d.lastAsked()); diff != "" {
				t.Errorf("the cluster was asked about (-want +got):\n%s", diff)
			}
		})
	}
}

// TestP6HeaderNamesAreThoseThatAreTold: they are configuration of the cluster.
func TestP6HeaderNamesAreThoseThatAreTold(t *testing.T) {
	d := newDelegator(t)
	authority := certificates.NewAuthority(t, "fronts")
	data := trust(nil, authority)
	d.tell(data)
	d.serve(nil)
	aggregator := authority.Pair(front, nil)
	plain, renamed := as(aggregator, "ann"), visit{certificate: aggregator, headers: map[string][]string{"X-Acme-User": {"bob"}, "X-Acme-Group": {"dev"}}}
	d.soon("the name that is told", plain, 200)
	d.soon("another name", renamed, 401)
	data["requestheader-username-headers"], data["requestheader-group-headers"] = `["X-Acme-User"]`, `["X-Acme-Group"]`
	d.tell(data)
	d.soon("the new name", renamed, 200)
	if want := "bob [dev system:authenticated] map[]"; d.lastAsked() != want {
		t.Errorf("it was taken for %q, want %q", d.lastAsked(), want)
	}
	d.soon("the name of before", plain, 401)
}

// TestP6WhoMayNothingIsRefusedEverything: being known is not being allowed, also
// past the aggregator. What is open is in docs/security.md.
func TestP6WhoMayNothingIsRefusedEverything(t *testing.T) {
	d := newDelegator(t)
	authority := certificates.NewAuthority(t, "fronts")
	d.tell(trust(nil, authority))
	d.serve(func(o *Options) { o.Features.EnableProfiling = true })
	aggregator := authority.Pair(front, nil)
	d.soon("the aggregator is known", as(aggregator, "ann"), 200)
	for path, want := range map[string]int{
		rckpts: 403, rckpts + "/x": 403, rckpts + "?watch=true": 403, rckpts + "/x/config": 403, groupPath + "/deploymentintents": 403,
		"/metrics": 403, "/debug/pprof/": 403, "/openapi/v2": 403, "/openapi/v3": 403, "/version": 403, "/": 403, "/apis/other": 403,
		"/apis": 200, "/apis/retained.haproxy-haptic.org": 200, groupPath: 200, "/livez": 200, "/readyz": 200,
	} {
		v := as(aggregator, "nobody")
		v.path = path
		if code, body := d.code(v); code != want {
			t.Errorf("%s without a right: %d, want %d: %.200s", path, code, want, body)
		}
		v = visit{headers: forged(), path: path}
		if code, _ := d.code(v); code != 401 && path != "/livez" && path != "/readyz" {
			t.Errorf("%s with forged headers: %d, want 401", path, code)
		}
	}
}
