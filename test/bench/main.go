package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings are what flags can set. The defaults are those of the targets.
type settings struct {
	only        string
	checkpoints int
	rounds      int
	profiles    string
	soak        time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.only, "only", "", "comma-separated benchmarks to run: "+strings.Join(names(), ", ")+" (default: all)")
	flag.IntVar(&s.checkpoints, "checkpoints", 1000, "checkpoints to store")
	flag.IntVar(&s.rounds, "rounds", 200, "rounds of tampering")
	flag.StringVar(&s.profiles, "profiles", "", "folder to write profiles of the API server to")
	flag.DurationVar(&s.soak, "soak", 20*time.Second, "how long to soak")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	results := &report{}
	err := run(ctx, s, results)
	stop()
	results.print(os.Stdout)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// benchmark is one thing to measure.
type benchmark struct {
	name string
	// measure gets the cluster, or nil if local.
	measure func(ctx context.Context, c *cluster, s settings, r *report) error
	local   bool
}

// benchmarks in the order in which they run: what needs the server fresh comes
// first, and each finds the stored objects that the ones before it left.
func benchmarks() []benchmark {
	return []benchmark{
		{name: "verification", measure: measureVerification, local: true},
		{name: "deploy", measure: measureDeploy, local: true},
		{name: "memory", measure: measureMemory},
		{name: "lists", measure: measureLists},
		{name: "tamper", measure: measureTamper},
		{name: "watchers", measure: measureWatchers},
		{name: "soak", measure: measureSoak},
		{name: "intent", measure: measureIntent},
		{name: "publication", measure: measurePublication},
	}
}

func names() []string {
	var all []string
	for _, b := range benchmarks() {
		all = append(all, b.name)
	}
	return all
}

// run goes on after a benchmark that failed: the others still tell something.
func run(ctx context.Context, s settings, r *report) error {
	wanted := names()
	if s.only != "" {
		wanted = strings.Split(s.only, ",")
	}
	for _, name := range wanted {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("there is no benchmark %q, only %s", name, strings.Join(names(), ", "))
		}
	}
	var c *cluster
	var errs []error
	for _, b := range benchmarks() {
		if !slices.Contains(wanted, b.name) {
			continue
		}
		if !b.local && c == nil {
			var err error
			if c, err = connect(ctx, s); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
		say("measuring %s", b.name)
		if err := b.measure(ctx, c, s, r); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", b.name, err))
		}
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
	}
	return errors.Join(errs...)
}
