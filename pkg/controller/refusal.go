package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/controller/election"
)

// What an operator can do about each refusal.
const (
	remedyInstallation = "remove HAPTIC with its definitions first or take another cluster (docs/upgrade.md), or install only the API server beside it (docs/install.md)"
	remedyNamespace    = "remove HAPTIC from the namespace first, or give the fleet a namespace of its own (docs/upgrade.md)"
	remedyLease        = "stop that controller first, or name another Lease in spec.controller.leaderElection.leaseName (docs/upgrade.md)"
)

// RefusalError says why this controller must not work where it was started: what
// it would write to is another product's. Only positive evidence makes one, so
// that an API server which does not answer is never taken for a reason.
type RefusalError struct {
	// Found names the objects and what they are, Want what they would have to be,
	// and Remedy what an operator can do.
	Found, Want, Remedy string
}

func (e *RefusalError) Error() string {
	return "refused to start: " + e.Found + ", " + e.Want + "; " + e.Remedy
}

// errNotDescribed says that the API server does not describe a kind that it
// serves, as it does for a moment after the kind was defined.
var errNotDescribed = errors.New("kinds are served and not described yet")

// described is what is read of an OpenAPI document: who is described, and where
// unknown fields are kept.
type described struct {
	Components struct {
		Schemas map[string]struct {
			keeping
			Kinds      []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
			Properties map[string]keeping        `json:"properties"`
		} `json:"schemas"`
	} `json:"components"`
}

type keeping struct {
	Keeps bool `json:"x-kubernetes-preserve-unknown-fields"`
}

// judgeDefinitions refuses the kinds of our group that drop what they do not
// know. The project's own definitions keep unknown fields at the root, in spec
// and in status, at every release, because a controller may meet objects of a
// newer one. Those of HAPTIC keep none there, the ones that only HAPTIC has
// included. It goes by what the API server does with an object, and not by names
// of whoever applied a definition, which every tool sets as it likes.
func judgeDefinitions(served []metav1.APIResource, document []byte) error {
	var d described
	if err := json.Unmarshal(document, &d); err != nil {
		return fmt.Errorf("decoding the API server's description of the stored kinds: %w", err)
	}
	var missing, dropping []string
	for _, resource := range served {
		if strings.Contains(resource.Name, "/") {
			continue
		}
		name := resource.Name + "." + v1alpha1.GroupName
		places, known := d.droppingPlaces(resource.Kind)
		switch {
		case !known:
			missing = append(missing, name)
		case len(places) > 0:
			dropping = append(dropping, name+" ("+strings.Join(places, ", ")+")")
		}
	}
	if len(dropping) > 0 {
		slices.Sort(dropping)
		return &RefusalError{
			Found:  "the custom resource definitions " + strings.Join(dropping, ", ") + " drop unknown fields at the places named, as those of HAPTIC do",
			Want:   "and those of this project keep them",
			Remedy: remedyInstallation,
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("%w: %s", errNotDescribed, strings.Join(missing, ", "))
	}
	return nil
}

// droppingPlaces are the parts of a kind's objects that lose unknown fields.
func (d *described) droppingPlaces(kind string) (places []string, known bool) {
	want := metav1.GroupVersionKind{Group: v1alpha1.GroupName, Version: v1alpha1.SchemeGroupVersion.Version, Kind: kind}
	for _, key := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		schema := d.Components.Schemas[key]
		if !slices.Contains(schema.Kinds, want) {
			continue
		}
		if !schema.Keeps {
			places = append(places, "root")
		}
		for _, part := range []string{"spec", "status"} {
			if found, ok := schema.Properties[part]; ok && !found.Keeps {
				places = append(places, part)
			}
		}
		return places, true
	}
	return nil, false
}

// Labels by which HAPTIC's chart tells its pods from one another.
const (
	labelComponent = "app.kubernetes.io/component"
	labelName      = "app.kubernetes.io/name"
	labelChart     = "helm.sh/chart"
	hapticName     = "haptic"
)

// judgePods refuses a namespace in which a controller of HAPTIC runs. The chart's
// own label comes first: the name is a setting of the chart.
func judgePods(pods []*corev1.Pod) error {
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.Labels[labelComponent] != "controller" {
			continue
		}
		label := ""
		switch {
		case strings.HasPrefix(pod.Labels[labelChart], hapticName+"-"):
			label = labelChart + "=" + pod.Labels[labelChart]
		case pod.Labels[labelName] == hapticName:
			label = labelName + "=" + hapticName
		default:
			continue
		}
		return &RefusalError{
			Found:  fmt.Sprintf("pod %s is a controller of HAPTIC by its labels %s and %s=controller", klog.KObj(pod), label, labelComponent),
			Want:   "and nothing but this project's controllers may serve templates of that namespace",
			Remedy: remedyNamespace,
		}
	}
	return nil
}

// judgeHolder refuses a leader-election Lease that is held, at this time, by
// someone whose identity is not of the form of ours. HAPTIC's is its pod's name.
// A Lease that has run out or was released is anybody's: that is how an
// installation is taken over.
func judgeHolder(lease *coordinationv1.Lease, now time.Time) error {
	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || election.IsIdentity(*spec.HolderIdentity) ||
		spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return nil
	}
	until := spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)
	if !until.After(now) {
		return nil
	}
	return &RefusalError{
		Found: fmt.Sprintf("the leader-election Lease %s is held until %s by %q, which is no controller of this project",
			klog.KObj(lease), until.UTC().Format(time.RFC3339), *spec.HolderIdentity),
		Want:   "whose identities are a name, an underscore and a UUID",
		Remedy: remedyLease,
	}
}
