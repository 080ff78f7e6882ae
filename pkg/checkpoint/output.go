package checkpoint

import (
	"slices"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

// BackendText is the text of one backend that plan JSON leaves out. Nil and
// empty lists differ in the stored payload.
type BackendText struct {
	Body     []string `json:"body"`
	Comments []string `json:"comments"`
}

// Output is one rendered configuration with everything that belongs to it.
type Output struct {
	// ConfigurationPath is where the configuration belongs on disk. It enters no hash.
	ConfigurationPath string
	Configuration     []byte
	Plan              *plan.Plan
	// Backends has exactly one entry per backend of the plan.
	Backends map[string]BackendText
	// Artifacts are in walk order, see SortArtifacts.
	Artifacts []Artifact
}

// Checksum is the output's content checksum: 16 lower-case hex digits.
func (o *Output) Checksum() string {
	return ContentChecksum(o.Configuration, o.Artifacts)
}

// SortArtifacts brings the artifacts into walk order: family number, then name
// by bytes.
func (o *Output) SortArtifacts() {
	slices.SortStableFunc(o.Artifacts, func(a, b Artifact) int {
		return compareWalked(a.Descriptor, b.Descriptor)
	})
}

// Descriptors are the artifacts without their content, in the same order.
func (o *Output) Descriptors() []Descriptor {
	descriptors := make([]Descriptor, 0, len(o.Artifacts))
	for i := range o.Artifacts {
		descriptors = append(descriptors, o.Artifacts[i].Descriptor)
	}
	return descriptors
}
