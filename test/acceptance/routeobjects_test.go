package acceptance

import (
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// writersAtOnce bounds the requests with which the routes are made.
const writersAtOnce = 8

// fill makes so many routes, each with a host, a Service and an endpoint of its
// own, and lets the controllers read them.
func (r *routing) fill(count int) {
	r.t.Helper()
	r.allow()
	var group errgroup.Group
	group.SetLimit(writersAtOnce)
	for i := range count {
		group.Go(func() error {
			service := fmt.Sprintf("svc-%d", i)
			if err := r.createService(service, upstreams[0]); err != nil {
				return err
			}
			return r.createRoute(fmt.Sprintf("h%d.example", i), "/", service, fmt.Sprintf("route-%d", i))
		})
	}
	if err := group.Wait(); err != nil {
		r.t.Fatal(err)
	}
}

// allow is manifests/examples/ingress-rights.yaml for one namespace.
func (r *routing) allow() {
	r.t.Helper()
	verbs := []string{"list", "watch"}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "ingress"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses"}, Verbs: verbs},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: verbs},
		{APIGroups: []string{""}, Resources: []string{"services", "secrets"}, Verbs: verbs},
	}}
	if _, err := r.core.RbacV1().Roles(r.namespace).Create(r.t.Context(), role, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "ingress"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "ingress"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "holdfast-controller", Namespace: r.namespace}}}
	if _, err := r.core.RbacV1().RoleBindings(r.namespace).Create(r.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// service makes a Service without selector and its endpoint.
func (r *routing) service(name, upstream string) {
	r.t.Helper()
	if err := r.createService(name, upstream); err != nil {
		r.t.Fatal(err)
	}
}

func (r *routing) createService(name, upstream string) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "web", Port: 80}},
	}}
	if _, err := r.core.CoreV1().Services(r.namespace).Create(r.t.Context(), service, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating service %s: %w", name, err)
	}
	port, portName := int32(upstreamPort), "web"
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{upstream}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
	}
	if _, err := r.core.DiscoveryV1().EndpointSlices(r.namespace).Create(r.t.Context(), slice, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the endpoint slice of %s: %w", name, err)
	}
	return nil
}

// point changes the one endpoint of a Service.
func (r *routing) point(service, upstream string) {
	r.t.Helper()
	patch := fmt.Sprintf(`{"endpoints": [{"addresses": [%q]}]}`, upstream)
	_, err := r.core.DiscoveryV1().EndpointSlices(r.namespace).Patch(r.t.Context(), service, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
}

// route adds a path of a host, in an Ingress of its own.
func (r *routing) route(host, path, service, name string) {
	r.t.Helper()
	if err := r.createRoute(host, path, service, name); err != nil {
		r.t.Fatal(err)
	}
}

func (r *routing) createRoute(host, path, service, name string) error {
	class, prefix := "holdfast", networkingv1.PathTypePrefix
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressSpec{
		IngressClassName: &class,
		Rules: []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Path: path, PathType: &prefix, Backend: networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: 80}},
			}}},
		}}}},
	}}
	if _, err := r.core.NetworkingV1().Ingresses(r.namespace).Create(r.t.Context(), ingress, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating ingress %s: %w", name, err)
	}
	return nil
}
