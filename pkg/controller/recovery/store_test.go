package recovery

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	hapticfake "github.com/holdfast-project/holdfast/generated/clientset/versioned/fake"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

func TestChildrenAreReadByOneListForEachKind(t *testing.T) {
	one := publish(t, site(t, "one"))
	haptic, core := hapticfake.NewSimpleClientset(), corefake.NewSimpleClientset(
		secretOf(one), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "somebody-elses"}})
	for _, child := range one.children {
		if _, isSecret := child.(*corev1.Secret); !isSecret {
			if err := haptic.Tracker().Add(child); err != nil {
				t.Fatal(err)
			}
		}
	}
	children, err := NewClientStore(haptic, core, web).Children(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, child := range children {
		got[child.Kind] = child.Text
	}
	want := map[string]string{
		v1alpha1.KindMapFile:     "host-one backend\n",
		v1alpha1.KindGeneralFile: "HTTP/1.0 503 Down\r\n\r\n",
		// The bytes themselves, not what the annotation says of them.
		v1alpha1.KindSecret: "-----BEGIN PRIVATE KEY-----\n" + keyLine + "\n",
	}
	if diff := cmp.Diff(want, got); diff != "" || len(children) != len(want) {
		t.Errorf("%d children (-want +got):\n%s", len(children), diff)
	}
	lists := map[string]int{}
	for _, action := range append(haptic.Actions(), core.Actions()...) {
		lists[action.GetVerb()+" "+action.GetResource().Resource]++
	}
	wantLists := map[string]int{"list haproxymapfiles": 1, "list haproxygeneralfiles": 1, "list haproxycrtlistfiles": 1, "list secrets": 1}
	if diff := cmp.Diff(wantLists, lists); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestAKindThatCannotBeListedIsNamed(t *testing.T) {
	for _, resource := range []string{"haproxymapfiles", "haproxygeneralfiles", "haproxycrtlistfiles", "secrets"} {
		t.Run(resource, func(t *testing.T) {
			haptic, core := hapticfake.NewSimpleClientset(), corefake.NewSimpleClientset()
			forbid := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("forbidden") }
			haptic.PrependReactor("list", resource, forbid)
			core.PrependReactor("list", resource, forbid)
			children, err := NewClientStore(haptic, core, web).Children(context.Background())
			if err == nil || !strings.Contains(err.Error(), "list ") || children != nil {
				t.Errorf("Children() = %v, %v, want an error that names the kind and no part of the rest", children, err)
			}
		})
	}
}

func TestWhatDoesNotExistIsNoError(t *testing.T) {
	store := NewClientStore(hapticfake.NewSimpleClientset(), corefake.NewSimpleClientset(), web)
	if cfg, err := store.Ordinary(context.Background()); cfg != nil || err != nil {
		t.Errorf("Ordinary() = %v, %v, want neither", cfg, err)
	}
}
