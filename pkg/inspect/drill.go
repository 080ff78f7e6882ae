package inspect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/selection"
	"github.com/holdfast-project/holdfast/pkg/view"
)

// Result is how one check of a drill ended.
type Result string

// Results.
const (
	Passed     Result = "Passed"
	Refused    Result = "Refused"
	NotKnown   Result = "Unknown"
	NotChecked Result = "Skipped"
)

// Answer is what a drill comes to: would replacement pods start now?
type Answer string

// Answers.
const (
	AnswerYes     Answer = "Yes"
	AnswerNo      Answer = "No"
	AnswerUnknown Answer = "Unknown"
)

// Check is one check with its result and what to do about it.
type Check struct {
	Name    string `json:"name"`
	Result  Result `json:"result"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	Do      string `json:"do,omitempty"`
}

// DrillReport is the answer for one template.
type DrillReport struct {
	Namespace  string  `json:"namespace"`
	Template   string  `json:"template"`
	Answer     Answer  `json:"answer"`
	Checkpoint string  `json:"checkpoint,omitempty"`
	Checksum   string  `json:"checksum,omitempty"`
	Checks     []Check `json:"checks"`
	// Starts are the pods that wait to be started, as far as it is stored.
	Starts []string `json:"starts"`
}

// GateVerdict is what a HAProxy binary says of a checkpoint.
type GateVerdict struct {
	// Valid and Refused are both false when the binary gave no verdict.
	Valid   bool   `json:"valid"`
	Refused bool   `json:"refused"`
	Message string `json:"message,omitempty"`
	Version string `json:"version,omitempty"`
}

// DrillSettings say what to drill.
type DrillSettings struct {
	// Template may be empty if there is only one.
	Template string
	// Gate is nil unless HAProxy is to be asked about a checkpoint, which it gets
	// by name and with its content.
	Gate func(ctx context.Context, name string, output *checkpoint.Output) (GateVerdict, error)
	// Now is compared with the expiry of Leases; zero leaves that out.
	Now time.Time
}

// drill is one run of all checks.
type drill struct {
	inv      *Inventory
	sp       *space
	fact     *templateFact
	template checkpoint.Template
	settings DrillSettings
	report   *DrillReport

	intent fencing.Intent
	choice *selection.Choice
}

// ErrWhichTemplate says that the input does not tell which template is meant.
var ErrWhichTemplate = errors.New("it is not clear which template is meant")

// Drill runs every check of a recovery that can be run on what is stored. A
// check that depends on one that did not pass is skipped.
func Drill(ctx context.Context, inv *Inventory, settings DrillSettings) (*DrillReport, error) {
	sp, fact, err := inv.templateFor(settings.Template)
	if err != nil {
		return nil, err
	}
	d, err := newDrill(ctx, inv, fact, settings)
	if err != nil {
		return nil, fmt.Errorf("template %s/%s: %w", sp.namespace, fact.Name, err)
	}
	return d.report, nil
}

// newDrill is a drill of one template that has been run.
func newDrill(ctx context.Context, inv *Inventory, fact *templateFact, settings DrillSettings) (*drill, error) {
	sp := inv.spaces[fact.Namespace]
	d := &drill{
		inv: inv, sp: sp, fact: fact, settings: settings,
		template: checkpoint.Template{Namespace: sp.namespace, Name: fact.Name, UID: inv.uidOf(sp, fact)},
		report:   &DrillReport{Namespace: sp.namespace, Template: fact.Name, Starts: []string{}},
	}
	if err := d.checkIntent(); err != nil {
		return nil, err
	}
	if err := d.checkStore(); err != nil {
		return nil, err
	}
	d.checkFleet()
	d.checkGate(ctx)
	d.tell()
	d.report.Answer = d.report.answer()
	return d, nil
}

// templateFor finds the template to drill, in whichever namespace was read.
func (inv *Inventory) templateFor(name string) (*space, *templateFact, error) {
	var found []*templateFact
	var names []string
	for _, namespace := range slices.Sorted(maps.Keys(inv.spaces)) {
		for _, each := range slices.Sorted(maps.Keys(inv.spaces[namespace].templates)) {
			if name == "" || name == each {
				found = append(found, inv.spaces[namespace].templates[each])
				names = append(names, namespace+"/"+each)
			}
		}
	}
	switch {
	case len(found) == 1:
		return inv.spaces[found[0].Namespace], found[0], nil
	case len(found) > 1:
		return nil, nil, fmt.Errorf("%w: there are %s", ErrWhichTemplate, strings.Join(names, ", "))
	case inv.unreadable[v1alpha1.KindTemplateConfig]:
		return nil, nil, fmt.Errorf("%w: there is no right to list haproxytemplateconfigs", ErrWhichTemplate)
	}
	return nil, nil, fmt.Errorf("%w: found no HAProxyTemplateConfig %s", ErrWhichTemplate, name)
}

func (d *drill) add(c Check) { d.report.Checks = append(d.report.Checks, c) }

// refuse adds a refusal as recovery would tell it.
func (d *drill) refuse(name string, f *selection.Refusal) {
	d.add(Check{Name: name, Result: Refused, Reason: string(f.Reason), Message: f.Message, Do: f.Do})
}

func (d *drill) skip(name, why string) {
	d.add(Check{Name: name, Result: NotChecked, Message: why})
}

// checkIntent reads the intent as recovery does, and whether somebody leads who
// may act on it.
func (d *drill) checkIntent() error {
	leases, err := d.inv.leasesOf(d.sp, d.fact, d.template.UID)
	if err != nil {
		return err
	}
	effective := fencing.Effective(leases.Election, leases.Retained, d.template.UID)
	switch {
	case !leases.Readable:
		d.add(Check{Name: "intent", Result: NotKnown, Reason: string(d.unreadable()), Message: "the Leases of the namespace were not read",
			Do: "Get the right to list leases, or give them with the export"})
	case effective.Source == fencing.SourceNone && effective.Problem != nil:
		d.refuse("intent", &selection.Refusal{Reason: selection.ReasonIntentUnreadable,
			Message: "leases: expected to read the intent, found " + effective.Problem.Error(), Do: selection.DoFixRendering})
	case !effective.Intent.HasPlan():
		d.refuse("intent", selection.Unselected(checkpoint.Selection{Reason: checkpoint.NoIntent}, effective.Intent))
	default:
		d.intent = effective.Intent
		d.report.Checksum = d.intent.Checksum
		d.add(Check{Name: "intent", Result: Passed,
			Message: fmt.Sprintf("the fleet was last told to run plan %s with checksum %s, in epoch %d", d.intent.PlanID, d.intent.Checksum, d.intent.Epoch)})
	}
	d.checkFence(leases, effective)
	return nil
}

// checkFence asks whether there is a leader whose term the Leases agree on. Only
// a leader starts pods.
func (d *drill) checkFence(leases view.Leases, effective fencing.EffectiveIntent) {
	const name, doLead = "fence", "See why no controller leads: only a leader starts pods"
	if !leases.Readable {
		d.skip(name, "the Leases were not read")
		return
	}
	for _, uid := range fencing.ForeignUIDs(leases.Election, leases.Retained, d.template.UID) {
		for _, other := range d.sp.templates {
			if other.UID == uid {
				d.add(Check{Name: name, Result: Refused, Reason: "ForeignTemplate",
					Message: fmt.Sprintf("the leases: expected template %s, found %s as well, which exists", d.fact.Name, other.Name),
					Do:      "Give each template a leaseName of its own"})
				return
			}
		}
	}
	if l := d.sp.leases[leases.ElectionName]; l != nil && !d.settings.Now.IsZero() && !l.expires.IsZero() && d.settings.Now.After(l.expires) {
		d.add(Check{Name: name, Result: Refused, Reason: view.ReasonNoLeader,
			Message: fmt.Sprintf("lease %s: expected to be renewed, found it expired at %s", leases.ElectionName, l.expires.UTC().Format(time.RFC3339)), Do: doLead})
		return
	}
	stored := view.Intent(&view.IntentInput{Template: &d.fact.Template, Leases: leases, Intent: effective})
	fenced := meta.FindStatusCondition(stored.Status.Conditions, views.ConditionFenced)
	check := Check{Name: name, Result: Passed, Reason: fenced.Reason, Message: fenced.Message}
	switch {
	case fenced.Status == metav1.ConditionTrue:
		check.Reason = ""
	case fenced.Reason == view.ReasonNoLeader:
		check.Result, check.Do = Refused, doLead
	default:
		check.Result, check.Do = NotKnown, "A term may be beginning: run the drill again"
	}
	d.add(check)
}

// unreadable is why something could not be looked at.
func (d *drill) unreadable() checkpoint.Reason { return (&verifier{inv: d.inv}).unreadable() }

func (r *DrillReport) answer() Answer {
	answer := AnswerYes
	for _, c := range r.Checks {
		switch c.Result {
		case Refused:
			return AnswerNo
		case NotKnown:
			answer = AnswerUnknown
		}
	}
	return answer
}
