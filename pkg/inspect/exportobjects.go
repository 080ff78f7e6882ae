package inspect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// lastApplied is where kubectl apply repeats a whole object, keys of Secrets included.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

const withoutSecrets = "--with-secrets was not given"

// objects takes in the stored objects as they were given, but for what is left out.
func (x *exporter) objects() error {
	items := []any{}
	var seen []identity
	for _, id := range x.wanted() {
		if slices.Contains(seen, id) {
			continue
		}
		seen = append(seen, id)
		object := objectName(id.kind, id.name)
		raw, given := x.inv.originals[id]
		if !given {
			if err := x.absent(id, object); err != nil {
				return err
			}
			continue
		}
		value := map[string]any{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &value); err != nil {
			return fmt.Errorf("%s: %w", object, decodeError(err))
		}
		if err := x.redact(id, object, value); err != nil {
			return err
		}
		items = append(items, value)
	}
	for name, r := range x.sp.retained {
		if name != x.r.cfg.Name && r.templateName == x.r.templateName {
			x.leave("other checkpoints of the template", "an export holds one")
			break
		}
	}
	raw, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the stored objects: %w", err)
	}
	x.put(ExportedFile{Path: exportObjects}, append(escaped(raw), '\n'))
	return nil
}

// absent tells why an object is not there. A Secret that was asked for is not
// silently left out: whoever needs keys would miss them when it is too late.
func (x *exporter) absent(id identity, object string) error {
	denied := x.sp.denied[childKey{id.kind, id.name}] || x.inv.unreadable[id.kind]
	switch {
	case denied && id.kind == v1alpha1.KindSecret && x.secrets:
		return fmt.Errorf("%w: there is no right to read %s in namespace %s", ErrSecretsWithheld, object, id.namespace)
	case denied:
		x.leave(object, "there is no right to read it")
	case x.inv.live:
		x.leave(object, "it does not exist")
	default:
		x.leave(object, "it is not in the input")
	}
	return nil
}

// redact takes out of an object what must not, or need not, leave the cluster.
func (x *exporter) redact(id identity, object string, value map[string]any) error {
	meta, ok := value["metadata"].(map[string]any)
	if !ok {
		return fmt.Errorf("%s has no metadata", object)
	}
	// Items of typed lists leave these out.
	meta["namespace"] = id.namespace
	value["apiVersion"], value["kind"] = apiVersionOf(id.kind), id.kind
	annotations, _ := meta["annotations"].(map[string]any)
	delete(annotations, lastApplied)
	spec, _ := value["spec"].(map[string]any)
	switch {
	case id.kind == v1alpha1.KindTemplateConfig:
		value["spec"] = map[string]any{"podSelector": spec["podSelector"], "controller": electionOf(spec)}
		x.leave(object, "all of spec but the pod selector and the leader election, since no verdict depends on it")
	case id.kind == v1alpha1.KindCfg && id.name != x.r.cfg.Name:
		delete(spec, "content")
		delete(spec, "compressed")
		x.leave(object+", spec.content", "it is the newest output, and not the checkpoint")
	case id.kind == v1alpha1.KindGeneralFile && spec["caFile"] == true && !x.secrets:
		delete(spec, "content")
		x.leave(object+", spec.content", "it is a bundle of authorities, and "+withoutSecrets)
	case id.kind == v1alpha1.KindSecret && !x.secrets:
		for member := range value {
			if !slices.Contains([]string{"apiVersion", "kind", "metadata", "type"}, member) {
				delete(value, member)
			}
		}
		for name := range annotations {
			// Anybody may have put anything into others.
			if !strings.HasPrefix(name, v1alpha1.GroupName+"/") {
				delete(annotations, name)
			}
		}
		x.leave(object+", data", withoutSecrets)
	case id.kind == v1alpha1.KindSecret:
		if data, _ := value["data"].(map[string]any); len(data) == 0 {
			return fmt.Errorf("%w: %s in namespace %s was given without its data", ErrSecretsWithheld, object, id.namespace)
		}
	}
	return nil
}

func apiVersionOf(kind string) string {
	switch kind {
	case v1alpha1.KindSecret:
		return corev1.SchemeGroupVersion.String()
	case KindLease:
		return coordinationv1.SchemeGroupVersion.String()
	}
	return v1alpha1.SchemeGroupVersion.String()
}

func electionOf(spec map[string]any) map[string]any {
	controller, _ := spec["controller"].(map[string]any)
	return map[string]any{"leaderElection": controller["leaderElection"]}
}
