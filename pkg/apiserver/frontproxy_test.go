package apiserver

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-project/holdfast/test/certificates"
)

const (
	trustNamespace, trustName = "kube-system", "extension-apiserver-authentication"
	// front is the name of the aggregator's certificate.
	front = "front-proxy-client"
	// tokenOf is in front of the owner's name in a good token.
	tokenOf = "token-of-"
	// toldLimit is how soon a change of the trust must count.
	toldLimit = time.Minute
)

// delegator is a cluster that a server asks who somebody is and what he may do,
// and the server. It answers by name: "nobody" may do nothing.
type delegator struct {
	*testing.T
	*recorder
	at string

	lock sync.Mutex
	// asked are the users whom the server asked about, as it knew them.
	asked []string
}

func newDelegator(t *testing.T) *delegator {
	t.Helper()
	d := &delegator{T: t, recorder: newRecorder(t)}
	d.reviews = http.HandlerFunc(d.review)
	return d
}

// serve starts the server and returns when it is ready.
func (d *delegator) serve(change func(*Options)) {
	d.Helper()
	o, at := d.options(d.T)
	if change != nil {
		change(o)
	}
	d.at = at
	runUntilStopped(d.T, o)
	awaitReady(d.T, at)
}

func (d *delegator) review(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	var token authenticationv1.TokenReview
	var access authorizationv1.SubjectAccessReview
	var answer any
	var err error
	if strings.HasSuffix(req.URL.Path, "tokenreviews") {
		err = json.Unmarshal(body, &token)
		token.Status.User.Username, token.Status.Authenticated = strings.CutPrefix(token.Spec.Token, tokenOf)
		token.Status.User.Groups = []string{"users"}
		answer = &token
	} else {
		err = json.Unmarshal(body, &access)
		delete(access.Spec.Extra, user.CredentialIDKey) // of the certificate
		d.lock.Lock()
		d.asked = append(d.asked, fmt.Sprintf("%s %v %v", access.Spec.User, access.Spec.Groups, access.Spec.Extra))
		d.lock.Unlock()
		access.Status.Allowed = access.Spec.User != "nobody"
		answer = &access
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client is gone then
}

// lastAsked is whom the server took somebody for.
func (d *delegator) lastAsked() string {
	d.lock.Lock()
	defer d.lock.Unlock()
	if len(d.asked) == 0 {
		return ""
	}
	return d.asked[len(d.asked)-1]
}

func (d *delegator) forget() {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.asked = nil
}

// trust is what a cluster tells its extension servers, as kube-apiserver writes it.
func trust(clients *certificates.Authority, fronts ...*certificates.Authority) map[string]string {
	data := map[string]string{
		"requestheader-allowed-names":        `["` + front + `"]`,
		"requestheader-username-headers":     `["X-Remote-User"]`,
		"requestheader-group-headers":        `["X-Remote-Group"]`,
		"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}
	if clients != nil {
		data["client-ca-file"] = string(clients.PEM)
	}
	for _, f := range fronts {
		data["requestheader-client-ca-file"] += string(f.PEM)
	}
	return data
}

// tell writes the trust, whether or not it is there.
func (d *delegator) tell(data map[string]string) {
	d.Helper()
	maps := kubernetes.NewForConfigOrDie(d.admin).CoreV1().ConfigMaps(trustNamespace)
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: trustName}, Data: data}
	if _, err := maps.Get(d.Context(), trustName, metav1.GetOptions{}); err != nil {
		_, err = maps.Create(d.Context(), m, metav1.CreateOptions{})
		if err != nil {
			d.Fatal(err)
		}
	} else if _, err := maps.Update(d.Context(), m, metav1.UpdateOptions{}); err != nil {
		d.Fatal(err)
	}
}

func (d *delegator) untell() {
	d.Helper()
	err := kubernetes.NewForConfigOrDie(d.admin).CoreV1().ConfigMaps(trustNamespace).Delete(d.Context(), trustName, metav1.DeleteOptions{})
	if err != nil {
		d.Fatal(err)
	}
}

// visit is one request by a connection of its own. Headers are sent as they are
// spelled.
type visit struct {
	certificate *tls.Certificate
	headers     map[string][]string
	path        string
}

// as is what the aggregator sends for a user.
func as(certificate *tls.Certificate, user string) visit {
	return visit{certificate: certificate, headers: map[string][]string{"X-Remote-User": {user}}}
}

func (d *delegator) code(v visit) (code int, body string) {
	d.Helper()
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13} // whose server it is does not matter here
	if v.certificate != nil {
		// Whatever authority the server names: this one is shown.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return v.certificate, nil }
	}
	if v.path == "" {
		v.path = rckpts
	}
	req, err := http.NewRequestWithContext(d.Context(), http.MethodGet, d.at+v.path, nil)
	if err != nil {
		d.Fatal(err)
	}
	for name, values := range v.headers {
		req.Header[name] = slices.Clone(values)
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}
	response, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		return response.StatusCode, err.Error()
	}
	return response.StatusCode, string(read)
}

// soon waits until a visit is answered by a code.
func (d *delegator) soon(what string, v visit, want int) {
	d.Helper()
	began := time.Now()
	for {
		code, body := d.code(v)
		switch took := time.Since(began); {
		case code == want:
			d.Logf("%s: %d after %d ms", what, code, took.Milliseconds())
			return
		case took > toldLimit:
			d.Fatalf("%s: still %d after %s, want %d: %.200s", what, code, took, want, body)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

type roundTripper func(req *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// forbidden is what a cluster without a grant answers.
func forbidden(req *http.Request) *http.Response {
	status := apierrors.NewForbidden(corev1.Resource("configmaps"), trustName, errors.New("no grant")).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	body, _ := json.Marshal(status)
	return &http.Response{
		StatusCode: http.StatusForbidden, Request: req, Body: io.NopCloser(bytes.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/json"}},
	}
}
