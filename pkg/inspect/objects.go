package inspect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// KindLease is the kind of Leases, beside those that package v1alpha1 names.
const KindLease = "Lease"

// Kinds that only a drill reads.
const (
	KindPod   = "Pod"
	KindNode  = "Node"
	KindEvent = "Event"
)

// maxLists bounds how deep Lists hold Lists.
const maxLists = 4

// template is what is read of a HAProxyTemplateConfig. The rest of its spec
// differs between controllers, and no verdict depends on it.
type template struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		PodSelector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"podSelector"`
		Controller struct {
			LeaderElection struct {
				Enabled   *bool  `json:"enabled"`
				LeaseName string `json:"leaseName"`
			} `json:"leaderElection"`
		} `json:"controller"`
	} `json:"spec"`
}

// objectReader takes objects apart and hands those of our kinds on.
type objectReader struct {
	allowance *allowance
	inventory *Inventory
	// namespace is given to objects that have none.
	namespace string
	// fleet has pods and nodes read too.
	fleet bool
	// only leaves out objects of all other namespaces, if it is not empty.
	only string
}

// ReadObjects reads one stream of YAML or JSON documents, named source in
// errors, into the inventory.
func (r *objectReader) ReadObjects(stream io.Reader, source string) error {
	return eachDocument(stream, r.allowance, func(number int, document []byte) error {
		where := source
		if number > 1 {
			where = fmt.Sprintf("%s, document %d", source, number)
		}
		raw, err := toJSON(document)
		if err != nil {
			return fmt.Errorf("%s %w", where, err)
		}
		return r.readJSON(raw, where)
	})
}

// readJSON reads JSON values, one after another.
func (r *objectReader) readJSON(raw []byte, where string) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s is not readable: %w", where, decodeError(err))
		}
		if err := r.value(value, metav1.TypeMeta{}, where, 0); err != nil {
			return err
		}
	}
}

// value reads an object or a List. Items of typed Lists may leave their type
// out, since the List tells it.
func (r *objectReader) value(raw json.RawMessage, implied metav1.TypeMeta, where string, depth int) error {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Items           json.RawMessage `json:"items"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &head); err != nil {
		return fmt.Errorf("%s holds something that is no object: %w", where, decodeError(err))
	}
	if head.Kind == "" {
		head.TypeMeta = implied
	}
	if head.Kind == "" || head.APIVersion == "" {
		return fmt.Errorf("%s holds an object without apiVersion or kind", where)
	}
	kind, isList := strings.CutSuffix(head.Kind, "List")
	if !isList {
		return r.object(raw, head.TypeMeta, where)
	}
	if depth >= maxLists {
		return fmt.Errorf("%s: Lists are nested more than %d deep", where, maxLists)
	}
	implied = metav1.TypeMeta{}
	if kind != "" {
		implied = metav1.TypeMeta{APIVersion: head.APIVersion, Kind: kind}
	}
	return r.items(head.Items, implied, where, depth+1)
}

func (r *objectReader) items(raw json.RawMessage, implied metav1.TypeMeta, where string, depth int) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if start, err := decoder.Token(); err != nil || start != json.Delim('[') {
		return fmt.Errorf("%s: items of a List are no list", where)
	}
	for decoder.More() {
		var item json.RawMessage
		if err := decoder.Decode(&item); err != nil {
			return fmt.Errorf("%s is not readable: %w", where, decodeError(err))
		}
		if err := r.value(item, implied, where, depth); err != nil {
			return err
		}
	}
	return nil
}

// object reads one object of any kind.
func (r *objectReader) object(raw json.RawMessage, kind metav1.TypeMeta, where string) error {
	if err := r.allowance.object(); err != nil {
		return err
	}
	gv, err := schema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		return fmt.Errorf("%s holds an object with an apiVersion that is none", where)
	}
	switch gv {
	case v1alpha1.SchemeGroupVersion:
		return r.stored(raw, kind.Kind, where)
	case corev1.SchemeGroupVersion:
		switch {
		case kind.Kind == v1alpha1.KindSecret:
			return decodeInto(r, raw, kind.Kind, where, new(corev1.Secret))
		case kind.Kind == KindPod && r.fleet:
			return decodeInto(r, raw, kind.Kind, where, new(corev1.Pod))
		case kind.Kind == KindEvent && r.fleet:
			return decodeInto(r, raw, kind.Kind, where, new(corev1.Event))
		case kind.Kind == KindNode && r.fleet:
			return r.node(raw, where)
		}
	case coordinationv1.SchemeGroupVersion:
		if kind.Kind == KindLease {
			return decodeInto(r, raw, kind.Kind, where, new(coordinationv1.Lease))
		}
	}
	r.inventory.skip(gv, kind.Kind)
	return nil
}

func (r *objectReader) stored(raw json.RawMessage, kind, where string) error {
	switch kind {
	case v1alpha1.KindTemplateConfig:
		return decodeInto(r, raw, kind, where, new(template))
	case v1alpha1.KindCfg:
		return decodeInto(r, raw, kind, where, new(v1alpha1.HAProxyCfg))
	case v1alpha1.KindMapFile:
		return decodeInto(r, raw, kind, where, new(v1alpha1.HAProxyMapFile))
	case v1alpha1.KindGeneralFile:
		return decodeInto(r, raw, kind, where, new(v1alpha1.HAProxyGeneralFile))
	case v1alpha1.KindCRTListFile:
		return decodeInto(r, raw, kind, where, new(v1alpha1.HAProxyCRTListFile))
	}
	r.inventory.skip(v1alpha1.SchemeGroupVersion, kind)
	return nil
}

// node notes whether a node is ready. Nodes have no namespace.
func (r *objectReader) node(raw json.RawMessage, where string) error {
	var node corev1.Node
	if err := json.Unmarshal(raw, &node); err != nil {
		return fmt.Errorf("%s: a %s is not readable: %w", where, KindNode, decodeError(err))
	}
	if r.inventory.nodes == nil {
		r.inventory.nodes = map[string]bool{}
	}
	r.inventory.nodes[node.Name] = slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return nil
}

// decodeInto reads an object of a kind that matters. A member that occurs twice
// is refused: two readers could read two things.
func decodeInto[T metav1.Object](r *objectReader, raw json.RawMessage, kind, where string, object T) error {
	repeated, err := kjson.UnmarshalStrict(raw, object, kjson.DisallowDuplicateFields)
	if err != nil {
		return fmt.Errorf("%s: a %s is not readable: %w", where, kind, decodeError(err))
	}
	if len(repeated) > 0 {
		return fmt.Errorf("%s: a %s has members twice: %w", where, kind, errors.Join(repeated...))
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(r.namespace)
	}
	name, namespace := object.GetName(), object.GetNamespace()
	switch {
	case !isName(name):
		return fmt.Errorf("%s: a %s has no usable metadata.name", where, kind)
	case namespace == "":
		return fmt.Errorf("%s: %s/%s has no namespace; give the one it belongs to with -n", where, kind, name)
	case !isName(namespace):
		return fmt.Errorf("%s: %s/%s has no usable metadata.namespace", where, kind, name)
	case r.only != "" && namespace != r.only:
		return nil
	}
	if err := r.inventory.add(object, kind, where); err != nil {
		return err
	}
	r.inventory.keep(identity{kind, namespace, name}, raw)
	return nil
}

// isName bounds what names may be, so that they can be printed as they are. It
// leaves names that Kubernetes would refuse to the verdict.
func isName(name string) bool {
	const longest = 253
	if name == "" || len(name) > longest {
		return false
	}
	for _, c := range name {
		if c <= ' ' || c > '~' || c == '/' {
			return false
		}
	}
	return true
}

// decodeError says what is wrong without what was read.
func decodeError(err error) error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var encoding base64.CorruptInputError
	switch {
	case errors.As(err, &wrongType):
		is, _, _ := strings.Cut(wrongType.Value, " ")
		if wrongType.Field == "" {
			return fmt.Errorf("it is a %s", is)
		}
		return fmt.Errorf("member %s is a %s", wrongType.Field, is)
	case errors.As(err, &syntax):
		return fmt.Errorf("no JSON at byte %d", syntax.Offset)
	case errors.As(err, &encoding):
		return errors.New("a member is not base64")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ends in the middle")
	}
	return errors.New("a member has a form it cannot have")
}
