package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/record"
)

// verificationBound is of section 13 of the design: the format needs two passes
// of SHA-256, so 0.5 cannot be reached.
const verificationBound = 0.4

// verificationRounds is how often each side is measured, in turns.
const verificationRounds = 5

// Shapes of the outputs that are verified: much content and a plan of usual size,
// less of it, what the other benchmarks store, and the plan of a large fleet.
var (
	contentShape = shape{configurationBytes: 960 << 10, backends: 64, blocked: 1024, more: 100}
	smallerShape = shape{configurationBytes: 960 << 10, backends: 64, blocked: 1024}
	routesShape  = shape{backends: 3000, blocked: 1}
)

// measureVerification runs in this process, on one core.
func measureVerification(ctx context.Context, _ *cluster, s settings, r *report) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	content, err := newSubject(ctx, contentShape)
	if err != nil {
		return err
	}
	if content.plan >= 64<<10 {
		return fmt.Errorf("the plan of the measured output has %d bytes, which the target does not allow", content.plan)
	}
	stop, err := profileSelf(s.profiles, "verification")
	if err != nil {
		return err
	}
	ratio, err := content.compare()
	stop()
	if err != nil {
		return err
	}
	for _, smaller := range []shape{smallerShape, largeShape} {
		f, err := newSubject(ctx, smaller)
		if err != nil {
			return err
		}
		if _, err := f.compare(); err != nil {
			return err
		}
	}
	routes, err := newSubject(ctx, routesShape)
	if err != nil {
		return err
	}
	times, err := processorTimes(func() { checkpoint.IngestCheckpoint(routes.payloadOnly) })
	if err != nil {
		return err
	}
	say("  payload of %d backends decoded at %.0f MB/s of %d bytes", routesShape.backends, float64(routes.payload)/times[0].Seconds()/1e6, routes.payload)
	r.add(target{name: "verification-throughput", value: ratio, bound: verificationBound, unit: "x", relation: floor})
	return nil
}

// subject is a stored checkpoint to verify.
type subject struct {
	bundle checkpoint.Bundle
	// content is the uncompressed size of configuration and non-map artifacts,
	// plan that of the plan's JSON, payload that of plan and backend lines.
	content, plan, payload int64
	// payloadOnly has the payload and next to nothing else.
	payloadOnly *checkpoint.StoredCheckpoint
}

func newSubject(ctx context.Context, s shape) (*subject, error) {
	made, err := newOutputs(ctx, s)
	if err != nil {
		return nil, err
	}
	output, err := made.render(ctx, 1)
	if err != nil {
		return nil, err
	}
	template := made.template
	template.Namespace, template.UID = largeNamespace, types.UID("9d6c1d3e-6f0e-4a53-9d1e-000000000000")
	set, err := newStoredSet(template, output)
	if err != nil {
		return nil, err
	}
	f := &subject{bundle: checkpoint.Bundle{
		Template:   checkpoint.Template{Namespace: template.Namespace, Name: template.Name, UID: string(template.UID)},
		Checkpoint: record.Checkpoint(set.checkpoint),
	}}
	for _, o := range set.maps {
		f.bundle.Children = append(f.bundle.Children, record.MapFile(o))
	}
	for _, o := range set.files {
		f.bundle.Children = append(f.bundle.Children, record.GeneralFile(o))
	}
	for _, o := range set.secrets {
		f.bundle.Children = append(f.bundle.Children, record.Secret(o))
	}
	return f, f.weigh(output)
}

func (f *subject) weigh(output *checkpoint.Output) error {
	f.content = int64(len(output.Configuration))
	for i := range output.Artifacts {
		if output.Artifacts[i].Family != checkpoint.Map {
			f.content += int64(len(output.Artifacts[i].Content))
		}
	}
	plan, err := output.Plan.Marshal()
	if err != nil {
		return err
	}
	lines, err := json.Marshal(output.Backends)
	if err != nil {
		return fmt.Errorf("encoding backend lines: %w", err)
	}
	f.plan, f.payload = int64(len(plan)), int64(len(plan)+len(lines))
	small := *f.bundle.Checkpoint
	small.Content, small.Compressed = "#", false
	f.payloadOnly = &small
	return nil
}

var errNotSound = errors.New("what is measured does not verify")

// compare is the rate of verification to that of SHA-256, over the content.
func (f *subject) compare() (float64, error) {
	if verdict := f.bundle.Judge(); verdict.State != checkpoint.Verified {
		return 0, fmt.Errorf("%w: %s: %s", errNotSound, verdict.Reason, verdict.Message)
	}
	plain := make([]byte, f.content)
	var found, hashing, verifying, decoding []float64
	for range verificationRounds {
		times, err := processorTimes(
			func() { sha256.Sum256(plain) },
			func() { f.bundle.Judge() },
			func() { checkpoint.IngestCheckpoint(f.payloadOnly) },
		)
		if err != nil {
			return 0, err
		}
		hashing = append(hashing, float64(f.content)/times[0].Seconds())
		verifying = append(verifying, float64(f.content)/times[1].Seconds())
		decoding = append(decoding, times[2].Seconds()/times[1].Seconds())
		found = append(found, times[0].Seconds()/times[1].Seconds())
	}
	say("  %d bytes with a plan of %d bytes: SHA-256 %.0f MB/s, verification %.0f MB/s (%.0f %% of it decodes the payload), ratio %.3f (%.3f to %.3f)",
		f.content, f.plan, median(hashing)/1e6, median(verifying)/1e6, median(decoding)*100, median(found), percentile(found, 0), percentile(found, 1))
	return median(found), nil
}

// processorTimes are the processor times that each of the functions takes on
// average, garbage collection included. They take turns, and what a busy machine
// does in between does not count.
func processorTimes(functions ...func()) ([]time.Duration, error) {
	sums := make([]time.Duration, len(functions))
	var failed error
	result := testing.Benchmark(func(b *testing.B) {
		clear(sums)
		for b.Loop() {
			for i, do := range functions {
				before, err := processorTime()
				do()
				after, err2 := processorTime()
				failed = errors.Join(failed, err, err2)
				sums[i] += after - before
			}
		}
	})
	if failed == nil && result.N == 0 {
		failed = errors.New("the benchmark did not run")
	}
	for i := range sums {
		sums[i] /= time.Duration(max(result.N, 1))
	}
	return sums, failed
}

// processorTime is what this process has used so far.
func processorTime() (time.Duration, error) {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return 0, fmt.Errorf("reading processor time: %w", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}

// profileSelf profiles this process until stop is called, if a folder is given.
func profileSelf(folder, name string) (stop func(), err error) {
	if folder == "" {
		return func() {}, nil
	}
	file, err := os.Create(filepath.Join(folder, name+".pprof"))
	if err != nil {
		return nil, fmt.Errorf("keeping a profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a profile: %w", err), file.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}
