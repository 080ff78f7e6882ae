package controller

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/deploy"
	"github.com/holdfast-project/holdfast/pkg/controller/gate"
	"github.com/holdfast-project/holdfast/pkg/controller/recovery"
)

// newRecovery makes a term's recovery out of the other parts, which it must not
// import: it reads pods as the deployer does, starts them by the deployer's
// rules, and asks the same gate as renders do.
func (l *leader) newRecovery(term recoveryTerm, settings deploy.Settings) *recovery.Recovery {
	template := checkpoint.Template{Namespace: l.template.Namespace, Name: l.template.Name, UID: string(l.template.UID)}
	return recovery.New(recovery.Settings{Template: template}, recovery.Parts{
		Term:   term,
		Fleet:  recoveryFleet{l.fleet},
		Agents: &recoveryAgents{leader: l, start: deploy.NewBootstrap(settings, l.agents, term)},
		Store:  recovery.NewClientStore(l.haptic, l.kubernetes, template),
		Gate:   recoveryGate{l.gate},
		Sink:   &recoverySink{events: l.events, health: l.health, template: l.template},
	}, l.recoveryMetrics)
}

// recoveryTerm is what recovery and the start of pods need of the election's
// term.
type recoveryTerm interface {
	recovery.Term
	deploy.Term
}

// recoveryFleet is the fleet with the pods that do not count.
type recoveryFleet struct{ *fleet }

func (f recoveryFleet) Pods() (discovered []recovery.Pod, excluded []recovery.Excluded) {
	counted, excluded := f.survey()
	for _, pod := range counted {
		discovered = append(discovered, recovery.Pod(pod))
	}
	return discovered, excluded
}

// recoveryAgents are the agents of the fleet.
type recoveryAgents struct {
	*leader
	start *deploy.Bootstrap

	mu sync.Mutex
	// last is the checkpoint's output as it was made ready last.
	last *deploy.Candidate
}

// prepared makes an output ready once for all pods that are started with it:
// that hashes all of its bytes.
func (a *recoveryAgents) prepared(output *checkpoint.Output) (*deploy.Candidate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last != nil && a.last.Output == output {
		return a.last, nil
	}
	candidate, err := deploy.Prepare(output, 0, nil)
	if err != nil {
		return nil, err
	}
	a.last = candidate
	return candidate, nil
}

func (a *recoveryAgents) State(ctx context.Context, pod recovery.Pod) (*api.State, error) {
	target := client.Target{PodName: pod.Name, PodUID: pod.UID, TemplateUID: string(a.template.UID), Address: pod.Address}
	return a.agents.State(ctx, target, client.StateOptions{Verify: true, WithoutPlan: true})
}

func (a *recoveryAgents) Start(ctx context.Context, order recovery.Order) error {
	candidate, err := a.prepared(order.Output)
	if err != nil {
		return err
	}
	_, err = a.start.Start(ctx, deploy.BootstrapOrder{Pod: deploy.Pod(order.Pod), Candidate: candidate, Guard: order.Guard})
	var rejected *deploy.RejectedError
	var unresolved *deploy.UnresolvedError
	floor, outranked := deploy.Outranked(err)
	switch {
	case errors.As(err, &rejected):
		return &recovery.RejectedError{Message: rejected.Detail.Message}
	case errors.As(err, &unresolved):
		return &recovery.UnresolvedError{Err: unresolved.Err}
	case outranked:
		return &recovery.OutrankedError{Floor: floor}
	}
	return err
}

// recoveryGate is the gate of renders.
type recoveryGate struct{ Gate }

func (g recoveryGate) Check(ctx context.Context, output *checkpoint.Output) (recovery.Verdict, error) {
	verdict, err := g.Gate.Check(ctx, output)
	if err != nil {
		return recovery.Verdict{}, err
	}
	outcome := recovery.Unknown
	switch verdict.Outcome {
	case gate.Valid:
		outcome = recovery.Valid
	case gate.Refused:
		outcome = recovery.Refused
	}
	return recovery.Verdict{Outcome: outcome, Message: verdict.Message, Version: verdict.Version}, nil
}

// recoverySink tells operators.
type recoverySink struct {
	events   eventRecorder
	health   *health
	template *v1alpha1.HAProxyTemplateConfig
}

func (s *recoverySink) Event(reason, note string) {
	s.events.Event(s.template, corev1.EventTypeWarning, reason, note)
}

func (s *recoverySink) Health(text string) { s.health.set(componentRecovery, text) }
