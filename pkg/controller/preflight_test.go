package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/test/fakeapi"
)

// descriptionPath is where the API server describes the stored kinds.
const descriptionPath = "/openapi/v3/apis/haproxy-haptic.org/v1alpha1"

// config is a controller's way to the API server.
func (in *installation) config(name string) *rest.Config {
	config := in.server.Config(name)
	if in.described != nil {
		config.Transport = describing{next: config.Transport, edit: in.described}
	}
	return config
}

// describing changes the description of the stored kinds on its way.
type describing struct {
	next http.RoundTripper
	edit func(map[string]any)
}

func (d describing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.next.RoundTrip(req)
	if err != nil || req.URL.Path != descriptionPath || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	document := map[string]any{}
	if err := json.NewDecoder(resp.Body).Decode(&document); err != nil {
		return nil, err
	}
	d.edit(document)
	changed, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(changed)), int64(len(changed))
	return resp, nil
}

// refusal waits for a process to end by itself and gives what it refused, after
// it has seen that the process wrote nothing.
func (in *installation) refusal(p *process) *RefusalError {
	in.t.Helper()
	pass(2 * time.Minute)
	select {
	case <-p.done:
	default:
		in.t.Fatal("the controller still runs")
	}
	var refused *RefusalError
	if !errors.As(p.err, &refused) {
		in.t.Fatalf("the controller ended with %v", p.err)
	}
	for _, r := range in.server.Requests() {
		if r.Client == p.name && r.Writes() {
			in.t.Errorf("the controller that refused wrote: %s", text(r))
		}
	}
	return refused
}

// leading tells whether a process of that name holds the Lease.
func (in *installation) leading(name string) bool {
	in.t.Helper()
	lease, err := in.core.CoordinationV1().Leases(namespace).Get(in.t.Context(), "web-leader", metav1.GetOptions{})
	return err == nil && lease.Spec.HolderIdentity != nil && strings.HasPrefix(*lease.Spec.HolderIdentity, name+"_")
}

func TestOverDefinitionsOfHAPTICTheControllerEndsAndWritesNothing(t *testing.T) {
	install(t, func(t *testing.T, in *installation) {
		in.described = asHAPTIC
		in.addPod()
		in.set(version(1))
		found := in.refusal(in.start("c1")).Found
		if !strings.Contains(found, "haproxytemplateconfigs.haproxy-haptic.org (root, spec, status)") {
			t.Errorf("found %q", found)
		}
	})
}

func TestBesideAControllerOfHAPTICTheControllerEndsAndWritesNothing(t *testing.T) {
	install(t, func(t *testing.T, in *installation) {
		_, err := in.core.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "haptic-controller-0", Namespace: namespace, Labels: map[string]string{
				labelName: "haptic", labelComponent: "controller", labelChart: "haptic-0.7.0",
			}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "controller", Image: "haptic"}}},
		}, metav1.CreateOptions{})
		in.must(err)
		in.set(version(1))
		if found := in.refusal(in.start("c1")).Found; !strings.Contains(found, "haptic-controller-0") {
			t.Errorf("found %q", found)
		}
	})
}

// A template may be made to name HAPTIC's Lease before the start or after it. A
// Lease that ran out is taken over: so goes an upgrade.
func TestALeaseThatSomebodyElseHoldsIsRefusedUntilItRanOut(t *testing.T) {
	install(t, func(t *testing.T, in *installation) {
		holder, now, seconds := "haptic-controller-7d9f", metav1.NowMicro(), int32(150)
		_, err := in.core.CoordinationV1().Leases(namespace).Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "web-leader", Namespace: namespace},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now, AcquireTime: &now, LeaseDurationSeconds: &seconds},
		}, metav1.CreateOptions{})
		in.must(err)
		p := in.start("c1")
		pass(10 * time.Second)
		in.set(version(1))
		if found := in.refusal(p).Found; !strings.Contains(found, holder) {
			t.Errorf("found %q", found)
		}
		pass(time.Minute)
		in.start("c2")
		pass(3 * time.Minute)
		if !in.leading("c2") {
			t.Error("nobody took over a Lease that ran out")
		}
	})
}

// Only what is known is a reason to refuse: a fleet must not lose its controller
// because a question was not answered.
func TestADescriptionThatCannotBeHadIsNoRefusal(t *testing.T) {
	down := errors.New("connection refused")
	tests := []struct {
		name string
		// described is what would be read, if it could be.
		described func(map[string]any)
		// answer is the error of a request, nil to let it through.
		answer func(c fakeapi.Call, since time.Duration) error
		within time.Duration
	}{
		{
			name: "it may not be read", described: asHAPTIC,
			answer: func(c fakeapi.Call, _ time.Duration) error {
				if c.Name == descriptionPath {
					return apierrors.NewForbidden(schema.GroupResource{}, c.Name, nil)
				}
				return nil
			},
			within: 5 * time.Second,
		},
		{
			name: "it is never there", described: asHAPTIC,
			answer: func(c fakeapi.Call, _ time.Duration) error {
				if c.Name == descriptionPath {
					return apierrors.NewServiceUnavailable("not now")
				}
				return nil
			},
			within: time.Minute,
		},
		{
			name: "the API server is down for ten minutes",
			answer: func(_ fakeapi.Call, since time.Duration) error {
				if since < 10*time.Minute {
					return down
				}
				return nil
			},
			within: 10*time.Minute + 30*time.Second,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			install(t, func(t *testing.T, in *installation) {
				in.described = tc.described
				began := time.Now()
				in.server.Hooks(fakeapi.Hooks{Before: func(_ context.Context, c fakeapi.Call) error {
					return tc.answer(c, time.Since(began))
				}})
				in.set(version(1))
				p := in.start("c1")
				pass(tc.within)
				select {
				case <-p.done:
					t.Fatalf("the controller ended: %v", p.err)
				default:
				}
				if !in.leading("c1") {
					t.Errorf("the controller does not lead after %s", tc.within)
				}
			})
		})
	}
}

// The description of a kind comes a moment after the kind.
func TestAKindThatIsDescribedLaterIsWaitedFor(t *testing.T) {
	install(t, func(t *testing.T, in *installation) {
		began := time.Now()
		in.described = func(document map[string]any) {
			if time.Since(began) < 12*time.Second {
				document["components"] = map[string]any{}
				return
			}
			asHAPTIC(document)
		}
		in.set(version(1))
		in.refusal(in.start("c1"))
	})
}
