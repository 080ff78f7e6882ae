package sim

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/retry"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// inputs are what the template says now.
type inputs struct {
	version int
	state   string
}

// States of the template.
const (
	inputsGood    = "good"
	inputsBroken  = "broken"
	inputsRefused = "refused"
)

// spec is the template for some inputs. Versions share some files.
func (i inputs) spec(p profile) v1alpha1.HAProxyTemplateConfigSpec {
	template := func(format string, args ...any) v1alpha1.Template {
		return v1alpha1.Template{Template: fmt.Sprintf(format, args...)}
	}
	var spec v1alpha1.HAProxyTemplateConfigSpec
	spec.PodSelector.MatchLabels = podLabels
	spec.HAProxyConfig = template("global\n  default-path config\n# version %d\n", i.version)
	spec.Maps = map[string]v1alpha1.Template{"hosts.map": template("host v%d\n", i.version%3)}
	spec.Files = map[string]v1alpha1.Template{"error.http": template("HTTP/1.0 503 v%d\n", i.version%2)}
	spec.SSLCertificates = map[string]v1alpha1.Template{"site.pem": template("certificate %d\n", i.version%2)}
	spec.Dataplane.ConfigPublishInterval = &metav1.Duration{Duration: p.publishInterval}
	switch i.state {
	case inputsBroken:
		spec.HAProxyConfig = template(`{{ fail "broken" }}`)
	case inputsRefused:
		spec.HAProxyConfig.Template += refusal + "\n"
	}
	return spec
}

// setInputs stores the template, the first time as a new object.
func (w *world) setInputs(next inputs) {
	if next.state == inputsGood && w.inputs.state != inputsGood && w.inputs.state != "" {
		w.repaired = time.Now()
	}
	w.inputs = next
	client := w.haptic.HapticV1alpha1().HAProxyTemplateConfigs(namespace)
	// A process may be writing the status.
	w.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		stored, err := client.Get(w.t.Context(), templateName, metav1.GetOptions{})
		if err != nil {
			stored = &v1alpha1.HAProxyTemplateConfig{ObjectMeta: metav1.ObjectMeta{Name: templateName, Namespace: namespace}, Spec: next.spec(w.profile)}
			_, err = client.Create(w.t.Context(), stored, metav1.CreateOptions{})
			return err
		}
		stored.Spec = next.spec(w.profile)
		_, err = client.Update(w.t.Context(), stored, metav1.UpdateOptions{})
		return err
	}))
}

// decode reads a stored object into its type.
func decode[T any](tree map[string]any) *T {
	out := new(T)
	raw, err := json.Marshal(tree)
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		panic(fmt.Sprintf("stored object does not decode: %v", err))
	}
	return out
}
