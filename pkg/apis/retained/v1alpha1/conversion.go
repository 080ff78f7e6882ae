package v1alpha1

import (
	"fmt"
	"net/url"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// Field labels that views can be selected by, beside metadata.name and
// metadata.namespace.
const (
	FieldTemplateName = "status.template.name"
	FieldChecksum     = "status.checksum"
	FieldVerified     = "status.verified"
	FieldRecoverable  = "status.recoverable"
)

// fieldLabels are the selectable fields of each kind. A label that is not
// listed is answered with 400, because nobody would select by it.
var fieldLabels = map[string][]string{
	"RetainedCheckpoint": {FieldTemplateName, FieldChecksum, FieldVerified, FieldRecoverable},
	"DeploymentIntent":   {FieldTemplateName, FieldChecksum, FieldRecoverable},
}

func addConversions(scheme *runtime.Scheme) error {
	for kind, labels := range fieldLabels {
		known := map[string]bool{"metadata.name": true, "metadata.namespace": true}
		for _, label := range labels {
			known[label] = true
		}
		err := scheme.AddFieldLabelConversionFunc(SchemeGroupVersion.WithKind(kind),
			func(label, value string) (string, string, error) {
				if !known[label] {
					return "", "", fmt.Errorf("field label not supported: %s", label)
				}
				return label, value, nil
			})
		if err != nil {
			return err
		}
	}
	return scheme.AddConversionFunc((*url.Values)(nil), (*RetainedCheckpointConfigOptions)(nil),
		func(in, out any, _ conversion.Scope) error {
			out.(*RetainedCheckpointConfigOptions).Path = in.(*url.Values).Get("path")
			return nil
		})
}
