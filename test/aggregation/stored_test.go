package aggregation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	hapticclient "github.com/holdfast-project/holdfast/generated/clientset/versioned/typed/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/test/owncluster"
)

// served are the namespaces that the server is told to serve.
var served = []string{edge, doomed}

func stored(t *testing.T) hapticclient.HapticV1alpha1Interface {
	t.Helper()
	return versioned.NewForConfigOrDie(owncluster.Config(t)).HapticV1alpha1()
}

// orphan is stored as a checkpoint and is none that verifies.
func orphan(name string) *v1alpha1.HAProxyCfg {
	return &v1alpha1.HAProxyCfg{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelRetainedFor: "nobody"}},
		Spec:       v1alpha1.HAProxyCfgSpec{Path: "haproxy.cfg", Content: "global\n", Checksum: "0123456789abcdef"},
	}
}
