package retainedcheckpoint

import (
	"io"

	"k8s.io/apimachinery/pkg/runtime"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/registry"
)

// list is a list of RetainedCheckpoints with an encoding of its own. Lists of
// many checkpoints are what the API is asked for most, and reflection takes most
// of the time to answer.
type list struct {
	*views.RetainedCheckpointList
}

var _ runtime.CacheableObject = (*list)(nil)

// DeepCopyObject returns a list of the same kind.
func (l *list) DeepCopyObject() runtime.Object {
	return &list{l.RetainedCheckpointList.DeepCopy()}
}

// GetObject returns the list that encoders know. Nothing is shared with others
// but what nobody changes.
func (l *list) GetObject() runtime.Object { return l.RetainedCheckpointList }

// CacheEncode writes compact JSON itself and leaves every other form to encode.
// Nothing is cached: that would take more memory than it saves time.
func (l *list) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	if !registry.IsPlainJSON(id, views.SchemeGroupVersion) {
		return encode(l.RetainedCheckpointList, w)
	}
	return registry.EncodedList{
		GVK:   views.SchemeGroupVersion.WithKind("RetainedCheckpointList"),
		Meta:  &l.ListMeta,
		Count: len(l.Items),
		Item:  func(j *registry.JSON, i int) error { return appendView(j, &l.Items[i]) },
	}.Write(w)
}

// appendView appends what package json makes of a view. A test fills every field
// of the type and compares.
func appendView(j *registry.JSON, v *views.RetainedCheckpoint) error {
	j.Open('{')
	j.Text("kind", v.Kind)
	j.Text("apiVersion", v.APIVersion)
	j.Name("metadata")
	if err := j.Meta(&v.ObjectMeta); err != nil {
		return err
	}
	s := &v.Status
	j.Name("status")
	j.Open('{')
	j.Name("template")
	j.Open('{')
	j.Name("name")
	j.String(s.Template.Name)
	j.Name("uid")
	j.String(string(s.Template.UID))
	j.Close('}')
	j.Name("checksum")
	j.String(s.Checksum)
	j.Text("planID", s.PlanID)
	j.Text("evidence", s.Evidence)
	j.Name("position")
	j.String(string(s.Position))
	appendConfiguration(j, s.Configuration)
	appendArtifacts(j, s.Artifacts)
	appendReceipt(j, s.Receipt)
	appendPods(j, s.Pods)
	if len(s.Conditions) > 0 {
		j.Name("conditions")
		j.Conditions(s.Conditions)
	}
	j.Close('}')
	j.Close('}')
	return nil
}

func appendConfiguration(j *registry.JSON, c *views.ConfigurationSummary) {
	if c == nil {
		return
	}
	j.Name("configuration")
	j.Open('{')
	j.Name("path")
	j.String(c.Path)
	j.Name("size")
	j.Number(c.Size)
	j.Name("sha256")
	j.String(c.SHA256)
	j.Close('}')
}

func appendArtifacts(j *registry.JSON, artifacts []views.ArtifactStatus) {
	if len(artifacts) == 0 {
		return
	}
	j.Name("artifacts")
	j.Open('[')
	for i := range artifacts {
		a := &artifacts[i]
		j.Open('{')
		j.Name("family")
		j.String(a.Family)
		j.Name("name")
		j.String(a.Name)
		j.Name("path")
		j.String(a.Path)
		if a.Size != nil {
			j.Name("size")
			j.Number(*a.Size)
		}
		j.Text("checksum", a.Checksum)
		if o := a.Object; o != nil {
			j.Name("object")
			j.Open('{')
			j.Name("kind")
			j.String(o.Kind)
			j.Name("name")
			j.String(o.Name)
			j.Text("uid", string(o.UID))
			j.Close('}')
		}
		if a.Shared {
			j.True("shared")
		}
		j.Name("verdict")
		j.String(a.Verdict)
		j.Text("reason", a.Reason)
		j.Text("message", a.Message)
		j.Close('}')
	}
	j.Close(']')
}

func appendReceipt(j *registry.JSON, r *views.Receipt) {
	if r == nil {
		return
	}
	j.Name("receipt")
	j.Open('{')
	j.Name("pod")
	j.String(r.Pod)
	j.Name("podUID")
	j.String(r.PodUID)
	j.Name("runtimeID")
	j.String(r.RuntimeID)
	j.Name("mode")
	j.String(r.Mode)
	j.Close('}')
}

func appendPods(j *registry.JSON, pods []views.PodReport) {
	if len(pods) == 0 {
		return
	}
	j.Name("pods")
	j.Open('[')
	for i := range pods {
		j.Open('{')
		j.Name("name")
		j.String(pods[i].Name)
		j.Text("uid", pods[i].UID)
		j.Text("runningPlanID", pods[i].RunningPlanID)
		j.Close('}')
	}
	j.Close(']')
}
