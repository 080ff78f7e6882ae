package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

// Status is what there is to know at one glance, template by template.
type Status struct {
	Templates []TemplateStatus `json:"templates"`
	notices   []Notice
}

// TemplateStatus is a drill of one template beside what it was run on.
type TemplateStatus struct {
	*DrillReport
	Checkpoints []*views.RetainedCheckpoint `json:"checkpoints"`
	Pods        []PodStatus                 `json:"pods"`
}

// PodStatus is what is stored of one pod. The pod itself may know more.
type PodStatus struct {
	Name  string `json:"name"`
	Node  string `json:"node,omitempty"`
	Ready bool   `json:"ready"`
	// Plan is what its worker ran when it was last reported.
	Plan string `json:"plan,omitempty"`
	// Counted is false for a pod that recovery leaves out, for the reason in Note.
	Counted bool   `json:"counted"`
	Note    string `json:"note,omitempty"`
}

// NewStatus judges everything that was read. now is compared with the expiry of
// Leases; zero leaves that out.
func NewStatus(ctx context.Context, inv *Inventory, now time.Time) (*Status, error) {
	report, err := Verify(inv)
	if err != nil {
		return nil, err
	}
	status := &Status{Templates: []TemplateStatus{}, notices: report.Notices}
	for _, namespace := range slices.Sorted(maps.Keys(inv.spaces)) {
		templates := inv.spaces[namespace].templates
		for _, name := range slices.Sorted(maps.Keys(templates)) {
			d, err := newDrill(ctx, inv, templates[name], DrillSettings{Now: now})
			if err != nil {
				return nil, fmt.Errorf("template %s/%s: %w", namespace, name, err)
			}
			status.Templates = append(status.Templates, TemplateStatus{
				DrillReport: d.report, Checkpoints: checkpointsOf(report, namespace, name), Pods: d.podStatuses(),
			})
		}
	}
	return status, nil
}

// Answer is the worst of all templates, Unknown if there is none.
func (s *Status) Answer() Answer {
	if len(s.Templates) == 0 {
		return AnswerUnknown
	}
	worst := AnswerYes
	for _, t := range s.Templates {
		switch t.Answer {
		case AnswerNo:
			return AnswerNo
		case AnswerUnknown:
			worst = AnswerUnknown
		}
	}
	return worst
}

func checkpointsOf(report *Report, namespace, template string) []*views.RetainedCheckpoint {
	found := []*views.RetainedCheckpoint{}
	for i := range report.Checkpoints {
		if v := report.Checkpoints[i].View; v.Namespace == namespace && v.Status.Template.Name == template {
			found = append(found, v)
		}
	}
	return found
}

// podStatuses are the pods that the template selects, by name.
func (d *drill) podStatuses() []PodStatus {
	found := []PodStatus{}
	entries := d.entries()
	counted, excluded := d.pods()
	for _, pod := range counted {
		entry, known := entries[string(pod.UID)]
		status := PodStatus{
			Name: pod.Name, Node: pod.Spec.NodeName, Ready: isReady(pod), Counted: true,
			Plan: cmp.Or(entry.WorkerOpsPlanID, entry.RunningPlanID),
		}
		if d.intent.HasPlan() {
			switch check := d.judgePod(pod, entry, known); {
			case check != nil:
				status.Note = check.Reason
			case !known:
				status.Note = "waits to be started"
			}
		}
		found = append(found, status)
	}
	for _, pod := range excluded {
		found = append(found, PodStatus{Name: pod.name, Note: pod.why})
	}
	return found
}
