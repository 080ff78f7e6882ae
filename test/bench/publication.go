package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/election"
	"github.com/holdfast-project/holdfast/pkg/controller/publish"
)

// publications is how many checkpoints are published, each of another output.
// The first finds nothing, and from the third on one is collected.
const publications = 5

// Bounds of section 13 of the design, for each publication: creates and updates
// beyond those of children, and lists of one child kind.
const (
	extraWritesBound = 4
	childListsBound  = 2
)

// outputsResource is the one that stores checkpoints; every other resource that
// a publication touches, but Leases, stores children.
const (
	outputsResource = "haproxycfgs"
	leasesResource  = "leases"
)

// measurePublication publishes checkpoints with the real publisher of a real
// term, and counts what that asks of the API server.
func measurePublication(ctx context.Context, c *cluster, _ settings, r *report) error {
	outputs, err := newOutputs(ctx, largeShape)
	if err != nil {
		return err
	}
	template, err := c.newTemplate(ctx, outputs, "bench-publication")
	if err != nil {
		return err
	}
	p, err := c.newPublishing(template, outputs)
	if err != nil {
		return err
	}
	if err := c.lead(ctx, template, p.publishAll); err != nil {
		return err
	}
	var worst costs
	for i, found := range p.costs {
		say("  publication %d: %d children and %d other writes, at most %d lists of a child kind, %d reads of a child, %d deletions, in %s",
			i+1, found.children, found.extraWrites, found.lists, found.childReads, found.deletes, p.durations[i].Round(time.Millisecond))
		worst.extraWrites, worst.lists = max(worst.extraWrites, found.extraWrites), max(worst.lists, found.lists)
		worst.childReads, worst.deletes = max(worst.childReads, found.childReads), worst.deletes+found.deletes
	}
	r.add(target{name: "publication-writes-beyond-children", value: float64(worst.extraWrites), bound: extraWritesBound, relation: ceiling})
	r.add(target{name: "publication-lists-per-child-kind", value: float64(worst.lists), bound: childListsBound, relation: ceiling})
	r.add(target{name: "publication-reads-of-a-child", value: float64(worst.childReads), bound: 0, relation: equal})
	r.add(target{name: "publication-deletions-beyond-collected", value: float64(worst.deletes) - p.collected, bound: 0, relation: equal})
	return nil
}

// publishing is a template's publications and what they cost.
type publishing struct {
	template  *v1alpha1.HAProxyTemplateConfig
	outputs   *outputs
	clients   publish.Clients
	registry  *prometheus.Registry
	costs     []costs
	durations []time.Duration
	// collected is how many objects the publisher says it deleted meanwhile.
	collected float64
}

func (c *cluster) newPublishing(template *v1alpha1.HAProxyTemplateConfig, o *outputs) (*publishing, error) {
	config := counting(c.config)
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a counting client: %w", err)
	}
	stored, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a counting client for stored objects: %w", err)
	}
	return &publishing{
		template: template, outputs: o, registry: prometheus.NewRegistry(),
		clients: publish.NewClients(stored, core, template.Namespace),
	}, nil
}

func (p *publishing) publishAll(ctx context.Context, term *election.Term) error {
	settings := publish.SettingsFor(p.template)
	// Each publication is asked for when the one before is stored.
	settings.Interval = 0
	publisher := publish.New(settings, p.clients, term, publish.NewMetrics(p.registry))
	asked := &tally{}
	running, stop := context.WithCancel(klog.NewContext(withTally(ctx, asked), klog.Logger{}))
	var ended sync.WaitGroup
	ended.Go(func() { publisher.Run(running) })
	defer ended.Wait()
	defer stop()
	for i := range publications {
		output, err := p.outputs.render(ctx, i)
		if err != nil {
			return err
		}
		if err := p.publish(ctx, term, publisher, output, asked); err != nil {
			return fmt.Errorf("publication %d: %w", i+1, err)
		}
	}
	return nil
}

// publish stores the ordinary output, which is not counted, and then the
// checkpoint.
func (p *publishing) publish(ctx context.Context, term *election.Term, publisher *publish.Publisher, o *checkpoint.Output, asked *tally) error {
	if err := term.Record(ctx, o.Plan.ID, o.Checksum()); err != nil {
		return err
	}
	sequence := uint64(len(p.costs) + 1)
	publisher.Accepted(o, sequence)
	if err := publisher.Flush(ctx); err != nil {
		return fmt.Errorf("the ordinary output: %w", err)
	}
	asked.take()
	before, err := p.deletedSoFar()
	if err != nil {
		return err
	}
	started := time.Now()
	publisher.Deployed(o, sequence, checkpoint.PodEntry{
		PodName: "proxy-0", PodUID: "7b0f4f46-5d7c-4a2c-9c62-3e8a5d1f0000", PodRuntimeID: "1767225600000000-42",
		Checksum: o.Checksum(), AppliedPlanID: o.Plan.ID, RunningPlanID: o.Plan.ID, Mode: v1alpha1.ModeReload,
	})
	if err := publisher.Flush(ctx); err != nil {
		return fmt.Errorf("the checkpoint: %w", err)
	}
	p.durations = append(p.durations, time.Since(started))
	after, err := p.deletedSoFar()
	if err != nil {
		return err
	}
	p.collected += after - before
	found := costsOf(asked.take())
	p.costs = append(p.costs, found)
	if found.children != len(o.Artifacts) {
		return fmt.Errorf("%d children were written, expected %d", found.children, len(o.Artifacts))
	}
	return nil
}

// deletedSoFar is what the publisher says it deleted, files of ordinary outputs
// included. Before the first deletion the metric does not exist.
func (p *publishing) deletedSoFar() (float64, error) {
	families, err := p.registry.Gather()
	if err != nil {
		return 0, fmt.Errorf("reading the publisher's metrics: %w", err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != "holdfast_controller_collected_objects_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum, nil
}

// costs are the requests of one publication.
type costs struct {
	// children are created or updated children, extraWrites all other creates and
	// updates.
	children, extraWrites int
	// lists is the most of any one child kind, childReads all reads of one child.
	lists, childReads, deletes int
}

func costsOf(calls []call) costs {
	var found costs
	lists := map[string]int{}
	for _, asked := range calls {
		child := asked.resource != outputsResource && asked.resource != leasesResource
		switch asked.method {
		case http.MethodPost, http.MethodPut, http.MethodPatch:
			if child {
				found.children++
			} else {
				found.extraWrites++
			}
		case http.MethodDelete:
			found.deletes++
		case http.MethodGet:
			switch {
			case child && asked.name == "":
				lists[asked.resource]++
				found.lists = max(found.lists, lists[asked.resource])
			case child:
				found.childReads++
			}
		}
	}
	return found
}
