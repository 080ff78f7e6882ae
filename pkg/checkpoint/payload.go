package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-project/holdfast/pkg/plan"
)

// outerPayload and innerPayload are the two layers of spec.retainedPlan, each
// of which is compressed. Member order is the order in which publishers write.
type outerPayload struct {
	Plan      string       `json:"plan"`
	Artifacts []Descriptor `json:"artifacts"`
	// Evidence is ours; other readers ignore it.
	Evidence string `json:"evidence,omitempty"`
}

type innerPayload struct {
	Plan     json.RawMessage        `json:"plan"`
	Backends map[string]BackendText `json:"backends"`
}

// EncodePayload is spec.retainedPlan of the output, with our evidence. It
// refuses an output that no reader would accept: plan ID, backends, backend
// lines and artifacts must fit together.
func EncodePayload(o *Output) (string, error) {
	if err := checkPublishable(o); err != nil {
		return "", fmt.Errorf("encoding the payload of an output: %w", err)
	}
	rawPlan, err := o.Plan.Marshal()
	if err != nil {
		return "", err
	}
	inner := innerPayload{Plan: rawPlan, Backends: o.Backends}
	if inner.Backends == nil {
		inner.Backends = map[string]BackendText{}
	}
	rawInner, err := json.Marshal(inner)
	if err != nil {
		return "", fmt.Errorf("encoding the inner payload: %w", err)
	}

	artifacts := slices.Clone(o.Artifacts)
	slices.SortStableFunc(artifacts, func(a, b Artifact) int { return compareWalked(a.Descriptor, b.Descriptor) })
	outer := outerPayload{Plan: pack(rawInner)}
	sums := make([]DescribedSum, 0, len(artifacts))
	for _, a := range artifacts {
		// Only plain general files have a choice; the flag of all others is false.
		a.ReloadOnChange = a.ReloadOnChange && a.Family == General
		outer.Artifacts = append(outer.Artifacts, a.Descriptor)
		sums = append(sums, DescribedSum{Descriptor: a.Descriptor, Sum: Summarize(a.Content)})
	}
	outer.Evidence = Evidence(Summarize(o.Configuration), Summarize(rawPlan), sums)
	rawOuter, err := json.Marshal(outer)
	if err != nil {
		return "", fmt.Errorf("encoding the outer payload: %w", err)
	}
	return pack(rawOuter), nil
}

func checkPublishable(o *Output) error {
	if o.Plan == nil {
		return errors.New("it has no plan")
	}
	id, err := o.Plan.ComputeID()
	if err != nil {
		return err
	}
	if o.Plan.ID != id {
		return fmt.Errorf("plan ID is %q, the plan's digest is %q", o.Plan.ID, id)
	}
	if len(o.Backends) != len(o.Plan.Backends) {
		return fmt.Errorf("it has the text of %d backends, the plan has %d backends", len(o.Backends), len(o.Plan.Backends))
	}
	for name, declared := range o.Plan.Backends {
		text, ok := o.Backends[name]
		if !ok {
			return fmt.Errorf("backend %q has no text", name)
		}
		if plan.LinesDigest(text.Body) != declared.BodyDigest || plan.LinesDigest(text.Comments) != declared.CommentsDigest {
			return fmt.Errorf("the lines of backend %q do not hash to the plan's digests", name)
		}
	}
	return checkArtifacts(o.Artifacts)
}

func checkArtifacts(artifacts []Artifact) error {
	taken := map[string]string{plan.ConfigPath: "the configuration"}
	for i := range artifacts {
		a := &artifacts[i]
		if !a.Family.Valid() {
			return fmt.Errorf("%s is of no known family (%d)", a.Path, a.Family)
		}
		if a.Name == "" || a.Path == "" || a.RuntimePath == "" {
			return fmt.Errorf("artifact %q of family %s lacks name, path or runtime path", a.Path, a.Family)
		}
		if other, ok := taken[a.RuntimePath]; ok {
			return fmt.Errorf("%s and %s share runtime path %s", other, a.Path, a.RuntimePath)
		}
		taken[a.RuntimePath] = a.Path
	}
	return nil
}
