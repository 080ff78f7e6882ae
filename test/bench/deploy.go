package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/pkg/agent/api"
	"github.com/holdfast-project/holdfast/pkg/agent/client"
	"github.com/holdfast-project/holdfast/pkg/controller/deploy"
)

const (
	deployPods   = 100
	deployRounds = 5
	// deploySeed makes the agents' latencies the same in every run.
	deploySeed = 20
	// deployBound is a deployment's time over that of its slowest agent.
	deployBound = 1.2
	// deployLimit bounds one round; agents take a second and a half at most.
	deployLimit = 30 * time.Second
	// deployInterval is so short that no round waits for the one before.
	deployInterval = time.Nanosecond
)

// measureDeploy brings outputs to a fleet of agents that take their time, with
// the real deployer. Each round has its own latencies, and the worst one counts.
func measureDeploy(ctx context.Context, _ *cluster, _ settings, r *report) error {
	outputs, err := newOutputs(ctx, largeShape)
	if err != nil {
		return err
	}
	f := newSlowFleet()
	deployer := deploy.New(deploy.Settings{TemplateUID: "bench", MinInterval: deployInterval},
		deploy.Parts{Agents: f, Term: soleTerm{}, Fleet: f, Sink: f})
	running, stop := context.WithCancel(klog.NewContext(ctx, klog.Logger{}))
	var ended sync.WaitGroup
	ended.Go(func() { deployer.Run(running) })
	defer ended.Wait()
	defer stop()
	worst := 0.0
	for round := range deployRounds {
		output, err := outputs.render(ctx, round)
		if err != nil {
			return err
		}
		candidate, err := deploy.Prepare(output, uint64(round+1), nil)
		if err != nil {
			return fmt.Errorf("preparing round %d: %w", round+1, err)
		}
		slowest, done := f.begin(candidate)
		started := time.Now()
		deployer.Dispatch(candidate)
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(deployLimit):
			return fmt.Errorf("round %d: %d of %d pods were not served within %s", round+1, f.missing(), deployPods, deployLimit)
		}
		took := time.Since(started)
		ratio := took.Seconds() / slowest.Seconds()
		say("  round %d: %d pods in %s, the slowest agent took %s, ratio %.3f",
			round+1, deployPods, took.Round(time.Millisecond), slowest.Round(time.Millisecond), ratio)
		worst = max(worst, ratio)
	}
	r.add(target{name: "deploy-100-pods-over-slowest-agent", value: worst, bound: deployBound, unit: "x", relation: ceiling})
	return nil
}

// soleTerm is a term that nobody contests.
type soleTerm struct{}

func (soleTerm) Epoch() uint64                                { return 1 }
func (soleTerm) Record(context.Context, string, string) error { return nil }
func (soleTerm) Reclaim(context.Context, uint64) error        { return nil }

// slowAgent answers as an agent whose HAProxy loads whatever it gets, after a
// while.
type slowAgent struct {
	mu    sync.Mutex
	state api.State
	// read and load are how long it takes to say its state and to load an output.
	read, load time.Duration
}

// slowFleet is pods, agents and sink of the benchmark.
type slowFleet struct {
	pods   []deploy.Pod
	agents map[string]*slowAgent // by address
	random *rand.Rand

	mu sync.Mutex
	// waiting are the pods that do not run the round's output yet, and done is
	// closed when there are none.
	waiting map[string]bool
	current *deploy.Candidate
	done    chan struct{}
}

func newSlowFleet() *slowFleet {
	f := &slowFleet{agents: map[string]*slowAgent{}, random: rand.New(rand.NewPCG(deploySeed, 0))}
	for i := range deployPods {
		pod := deploy.Pod{Name: fmt.Sprintf("proxy-%d", i), UID: fmt.Sprintf("uid-%d", i), Address: fmt.Sprintf("10.244.0.%d:9444", i)}
		f.pods = append(f.pods, pod)
		f.agents[pod.Address] = &slowAgent{state: api.State{
			APIVersion: api.Version, PodName: pod.Name, PodUID: pod.UID, Phase: api.PhaseBootstrap,
			WorkerStatus: api.WorkerOwned, HAProxy: api.HAProxy{WorkerPID: 1, WorkerStartTimeUnixMicros: 1},
		}}
	}
	return f
}

// begin draws the latencies of a round and tells the slowest pod's: most are
// quick, and a few take long, as reloads do.
func (f *slowFleet) begin(c *deploy.Candidate) (slowest time.Duration, done <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting, f.current, f.done = map[string]bool{}, c, make(chan struct{})
	for _, pod := range f.pods {
		f.waiting[pod.UID] = true
		a := f.agents[pod.Address]
		a.mu.Lock()
		a.read = time.Duration(1+f.random.IntN(100)) * time.Millisecond
		a.load = 50*time.Millisecond + time.Duration(min(f.random.ExpFloat64()*0.2, 1.2)*float64(time.Second))
		slowest = max(slowest, a.read+a.load)
		a.mu.Unlock()
	}
	return slowest, f.done
}

func (f *slowFleet) missing() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiting)
}

// Pods are always the same.
func (f *slowFleet) Pods() []deploy.Pod { return f.pods }

// Deployed counts receipts.
func (f *slowFleet) Deployed(report deploy.Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !report.Receipt || f.current == nil || report.Output != f.current.Output || !f.waiting[report.Pod.UID] {
		return
	}
	delete(f.waiting, report.Pod.UID)
	if len(f.waiting) == 0 {
		close(f.done)
	}
}

// Living, Converged and Recorded are no news here.
func (f *slowFleet) Living([]deploy.Pod)               {}
func (f *slowFleet) Converged(*deploy.Candidate)       {}
func (f *slowFleet) Recorded(*deploy.Candidate, error) {}

// Announce is heard at once.
func (f *slowFleet) Announce(_ context.Context, _ client.Target, epoch uint64) (api.Floor, error) {
	return api.Floor{Floor: epoch}, nil
}

// State answers after the agent's latency.
func (f *slowFleet) State(ctx context.Context, target client.Target, opts client.StateOptions) (*api.State, error) {
	a := f.agents[target.Address]
	a.mu.Lock()
	state, pause := a.state, a.read
	a.mu.Unlock()
	if err := wait(ctx, pause); err != nil {
		return nil, err
	}
	state.Verified = opts.Verify
	return &state, nil
}

// Apply loads the output after the agent's latency.
func (f *slowFleet) Apply(ctx context.Context, target client.Target, request client.ApplyRequest) (*api.Result, error) {
	a := f.agents[target.Address]
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := wait(ctx, a.load); err != nil {
		return nil, &client.UnansweredError{Pod: target.PodName, Err: err}
	}
	m := request.Manifest
	if m.ExpectedPrevPlanID != a.state.AppliedPlanID || m.ExpectedPrevToken != a.state.AppliedToken {
		return nil, &client.ConflictError{Pod: target.PodName, Conflict: api.Conflict{Reason: api.ReasonPrevMismatch}}
	}
	a.state.Phase, a.state.AppliedToken, a.state.Files = api.PhaseConfigured, m.Token, map[string]api.FileState{}
	for _, file := range m.Files {
		a.state.Files[file.Path] = file.State()
	}
	a.state.Plans = api.Plans{
		AppliedPlanID: m.PlanID, AppliedPlanProof: m.PlanProof, RunningPlanID: m.PlanID, RunningPlanProof: m.PlanProof,
	}
	a.state.HAProxy.WorkerPID++
	a.state.HAProxy.WorkerStartTimeUnixMicros++
	return &api.Result{
		PlanID: m.PlanID, OK: true, Mode: api.OutcomeReload, Plans: a.state.Plans, AppliedToken: m.Token, HAProxy: a.state.HAProxy,
	}, nil
}

func wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
