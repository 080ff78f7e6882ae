package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	schedules := flag.Int("schedules", 2000, "schedules in which a mutant must be caught")
	only := flag.String("run", "", "regular expression for the names of the mutants to run")
	workers := flag.Int("workers", 2, "mutants that run at once")
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, options{schedules: *schedules, only: *only, workers: *workers, root: *root}); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

type options struct {
	schedules, workers int
	only, root         string
}

func run(ctx context.Context, o options) error {
	pattern, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "holdfast-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Printf("mutants: building the simulation with %d mutants\n", len(mutants))
	binary, err := build(ctx, o.root, dir)
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range mutants {
		if pattern.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	results := make([]result, len(chosen))
	limit := make(chan struct{}, o.workers)
	var wg sync.WaitGroup
	for i, m := range chosen {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			results[i] = try(ctx, trial{binary: binary, folder: filepath.Join(o.root, "test", "sim"), name: m.name, schedules: o.schedules})
			fmt.Printf("  %-36s %s\n", m.name, results[i])
		})
	}
	wg.Wait()
	return table(chosen, results, o.schedules)
}

// table prints what became of each mutant, and fails if one survived.
func table(chosen []mutant, results []result, schedules int) error {
	killed := 0
	fmt.Printf("\n%-36s %10s  %s\n", "MUTANT", "SCHEDULES", "CAUGHT BY")
	for i, m := range chosen {
		r := results[i]
		switch {
		case r.err != nil:
			fmt.Printf("%-36s %10s  %v\n", m.name, "-", r.err)
		case r.caught == 0:
			fmt.Printf("%-36s %10s  survived %d schedules\n", m.name, "-", schedules)
		default:
			killed++
			fmt.Printf("%-36s %10d  %s\n", m.name, r.caught, r.invariant)
		}
	}
	fmt.Printf("mutants %d killed %d\n", len(chosen), killed)
	if killed < len(chosen) {
		return fmt.Errorf("%d mutants were not caught", len(chosen)-killed)
	}
	return nil
}

// result is what became of one mutant.
type result struct {
	// caught is the number of schedules until a checker noticed, 0 if none did.
	caught int
	// invariant is what the checker guards, and detail what it said.
	invariant, detail string
	took              time.Duration
	err               error
}

func (r result) String() string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case r.caught == 0:
		return fmt.Sprintf("survived (%.0fs)", r.took.Seconds())
	}
	return fmt.Sprintf("caught after %d (%.0fs) by %s: %s", r.caught, r.took.Seconds(), r.invariant, r.detail)
}

type trial struct {
	binary, folder, name string
	schedules            int
}

// verdictLine is what the simulation prints when it was told to stop at the
// first violation.
var verdictLine = regexp.MustCompile(`(?m)^first violation after (\d+) schedules: (.*)$`)

func try(ctx context.Context, t trial) result {
	began := time.Now()
	command := exec.CommandContext(ctx, t.binary, "-test.run=^TestUntilViolation$", "-test.timeout=0", "-until", strconv.Itoa(t.schedules))
	command.Dir = t.folder
	command.Env = append(os.Environ(), mutantVariable+"="+t.name)
	output, err := command.CombinedOutput()
	r := result{took: time.Since(began)}
	if found := verdictLine.FindSubmatch(output); found != nil {
		r.caught, _ = strconv.Atoi(string(found[1]))
		r.invariant, r.detail, _ = strings.Cut(string(found[2]), ": ")
		return r
	}
	if err != nil {
		r.err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(output[max(0, len(output)-600):])))
	}
	return r
}

// build compiles the simulation with all mutants in it, switched off.
func build(ctx context.Context, root, dir string) (string, error) {
	overlay, err := overlayOf(root, dir)
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "sim.test")
	command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay", file, "-o", binary, "./test/sim")
	command.Dir, command.Stdout, command.Stderr = root, os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("building the mutated simulation: %w", err)
	}
	return binary, nil
}
