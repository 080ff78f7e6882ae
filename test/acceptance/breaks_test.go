package acceptance

import (
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// editTemplate changes the template's spec, and gives what puts it back.
func (s *stage) editTemplate(edit func(spec *v1alpha1.HAProxyTemplateConfigSpec)) (restore func()) {
	s.t.Helper()
	var before *v1alpha1.HAProxyTemplateConfigSpec
	apply := func(change func(spec *v1alpha1.HAProxyTemplateConfigSpec)) {
		s.t.Helper()
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			templates := s.haptic.HapticV1alpha1().HAProxyTemplateConfigs(s.namespace)
			template, err := templates.Get(s.t.Context(), templateName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if before == nil {
				before = template.Spec.DeepCopy()
			}
			change(&template.Spec)
			_, err = templates.Update(s.t.Context(), template, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	apply(edit)
	return func() { apply(func(spec *v1alpha1.HAProxyTemplateConfigSpec) { *spec = *before }) }
}

func (s *stage) editConfig(edit func(text string) string) (restore func()) {
	s.t.Helper()
	return s.editTemplate(func(spec *v1alpha1.HAProxyTemplateConfigSpec) {
		text := edit(spec.HAProxyConfig.Template)
		if text == spec.HAProxyConfig.Template {
			s.t.Fatal("the edit changed nothing")
		}
		spec.HAProxyConfig.Template = text
	})
}

// moveSource makes the critical document one that was never fetched.
func (s *stage) moveSource(url string) {
	s.t.Helper()
	s.editTemplate(func(spec *v1alpha1.HAProxyTemplateConfigSpec) {
		source := spec.HTTPResources[sourceName]
		source.URL = url
		spec.HTTPResources = maps.Clone(spec.HTTPResources)
		spec.HTTPResources[sourceName] = source
	})
}

// breakSource moves the critical document to where nobody listens, until repaired.
func breakSource(s *stage) (repair func()) {
	s.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.moveSource("http://" + address)
	return func() {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			s.t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, sourceText) // a client that went away asks again
		}))
		if err := server.Listener.Close(); err != nil {
			s.t.Fatal(err)
		}
		server.Listener = listener
		server.Start()
		s.t.Cleanup(server.Close)
	}
}

// overfillSource moves the document to where it exceeds its maxBytes.
func overfillSource(s *stage) (repair func()) {
	s.t.Helper()
	var small atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := sourceText
		if !small.Load() {
			text = strings.Repeat("x", 2048)
		}
		_, _ = io.WriteString(w, text) // a client that went away asks again
	}))
	s.t.Cleanup(server.Close)
	s.moveSource(server.URL)
	return func() { small.Store(true) }
}

// watchForbidden watches a kind without the right to, until it is granted.
func watchForbidden(s *stage) (repair func()) {
	s.t.Helper()
	s.editTemplate(func(spec *v1alpha1.HAProxyTemplateConfigSpec) {
		spec.WatchedResources = maps.Clone(spec.WatchedResources)
		spec.WatchedResources["services"] = v1alpha1.WatchedResource{APIVersion: "v1", Resources: "services"}
	})
	return func() {
		role := &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: "holdfast-controller-services"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list", "watch"}}},
		}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "holdfast-controller", Namespace: s.namespace}},
		}
		_, err := s.core.RbacV1().Roles(s.namespace).Create(s.t.Context(), role, metav1.CreateOptions{})
		if err == nil {
			_, err = s.core.RbacV1().RoleBindings(s.namespace).Create(s.t.Context(), binding, metav1.CreateOptions{})
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// replaceCertificate changes what host X's Secret holds as its certificate.
func (s *stage) replaceCertificate(certificate []byte) (restore func()) {
	s.t.Helper()
	replace := func(with []byte) (before []byte) {
		s.t.Helper()
		secrets := s.core.CoreV1().Secrets(s.namespace)
		secret, err := secrets.Get(s.t.Context(), "web-tls", metav1.GetOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		before, secret.Data[corev1.TLSCertKey] = secret.Data[corev1.TLSCertKey], with
		if _, err := secrets.Update(s.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			s.t.Fatal(err)
		}
		return before
	}
	before := replace(certificate)
	return func() { replace(before) }
}
