package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Scenario is a history that matters, step by step, with the checkers of the
// simulation watching.
type Scenario struct {
	Name string `json:"name"`
	// About says why this history matters.
	About string `json:"about"`
	Pods  int    `json:"pods"`
	Steps []Step `json:"steps"`
}

// Step is one move of a scenario; exactly one of its first four members is set.
type Step struct {
	// Fault is the name of a fault, Subject whom it hits: "leader", "follower",
	// "paused" or what that fault takes.
	Fault   string `json:"fault,omitempty"`
	Subject string `json:"subject,omitempty"`
	// When waits until an item waits whose key contains the text; Fate then
	// releases it, if given.
	When string `json:"when,omitempty"`
	Fate string `json:"fate,omitempty"`
	// Hold keeps items waiting whose key contains the text, until the next Hold;
	// "nothing" ends it.
	Hold string `json:"hold,omitempty"`
	// Until delivers until a condition holds: "rest", "new leader", "new intent",
	// "ended" (the subject of the last fault), or until the time has passed.
	Until string          `json:"until,omitempty"`
	For   metav1.Duration `json:"for,omitempty"`
}

// ReadScenario loads a scenario; members that do not exist are errors.
func ReadScenario(path string) (*Scenario, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var s Scenario
	if err := yaml.UnmarshalStrict(raw, &s); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", path, err)
	}
	return &s, nil
}

// Play runs a scenario. It must be called in a bubble of testing/synctest.
func Play(t testing.TB, o *Scenario) *Result {
	w := newWorld(t, true)
	w.profile = profile{versions: 6, publishInterval: 2 * time.Second}
	s := &schedule{world: w}
	defer s.tearDown()
	w.setInputs(inputs{state: inputsGood})
	for range o.Pods {
		w.addPod()
	}
	w.start("a")
	w.start("b")
	p := player{schedule: s}
	for n, step := range o.Steps {
		w.note("--- step %d: %+v", n+1, step)
		if err := p.play(step); err != nil {
			w.violate("scenario", "step %d: %v", n+1, err)
		}
		if len(w.broken()) > 0 {
			break
		}
	}
	return &Result{Trace: Trace{Violations: w.broken()}, History: w.history.lines}
}

// player moves a scenario on.
type player struct {
	*schedule
	subject string
	// leader and plan are those when the last fault struck.
	leader, plan string
}

func (p *player) play(step Step) error {
	switch {
	case step.Fault != "":
		return p.fault(step)
	case step.When != "":
		return p.when(step)
	case step.Hold != "":
		p.held = func(i *item) bool { return step.Hold != "nothing" && strings.Contains(i.key, step.Hold) }
		return nil
	case step.For.Duration > 0:
		p.deliver(step.For.Duration, func(bool) bool { return false })
		return nil
	}
	return p.until(step.Until)
}

func (p *player) fault(step Step) error {
	synctest.Wait()
	p.leader, p.plan, p.subject = p.leases.election.Holder, p.leases.intent().PlanID, step.Subject
	for _, process := range p.running() {
		if step.Subject == "paused" && process.paused {
			p.subject = process.name
		}
		leads := strings.HasPrefix(p.leader, process.pod+"_")
		if step.Subject == "leader" && leads || step.Subject == "follower" && !leads {
			p.subject = process.name
		}
	}
	return p.strike(Decision{Do: step.Fault, What: p.subject})
}

func (p *player) when(step Step) error {
	find := func() *item {
		for _, i := range p.network.snapshot() {
			if strings.Contains(i.key, step.When) {
				return i
			}
		}
		return nil
	}
	p.deliver(livenessLimit, func(bool) bool { return find() != nil })
	found := find()
	if found == nil {
		return fmt.Errorf("nothing like %q ever waits", step.When)
	}
	if step.Fate != "" {
		p.network.let(found.key, step.Fate)
	}
	return nil
}

func (p *player) until(condition string) error {
	conditions := map[string]func(quiet bool) bool{
		"rest": func(quiet bool) bool { return quiet && p.unrest() == "" },
		"new leader": func(bool) bool {
			holder := p.leases.election.Holder
			return holder != "" && holder != p.leader && p.leases.intent().Holder == holder
		},
		"new intent": func(bool) bool { return p.leases.intent().PlanID != p.plan },
		"ended":      func(bool) bool { return p.process(p.subject).ended() },
	}
	done, known := conditions[condition]
	if !known {
		return fmt.Errorf("there is no condition %q", condition)
	}
	if !p.deliver(livenessLimit, done) {
		return fmt.Errorf("%q does not come true; %s", condition, p.unrest())
	}
	return nil
}
