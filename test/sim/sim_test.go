//go:debug randseednop=0

package sim

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

var (
	schedules = flag.Int("schedules", 20, "number of schedules")
	firstSeed = flag.Uint64("seed", 1, "seed of the first schedule")
	workers   = flag.Int("workers", 2, "processes that run schedules")
	stride    = flag.Uint64("stride", 1, "distance of the seeds of one process")
	replay    = flag.String("replay", "", "trace file to replay instead")
	traces    = flag.String("traces", "../../_output/sim", "folder for traces of failed schedules")
	verbose   = flag.Bool("history", false, "keep logs and commits in histories, and print them")
	until     = flag.Int("until", 0, "stop at the first violation, after at most so many schedules")
	repeats   = flag.Int("repeats", 0, "seeds to run twice, to count those that repeat from the seed alone")
)

// TestMain makes the compressor before any bubble exists: it keeps channels for
// the life of the process, and those of one bubble are no use to another.
func TestMain(m *testing.M) {
	flag.Parse()
	text, compressed := checkpoint.Store(bytes.Repeat([]byte("a"), 1000), 1)
	if _, err := checkpoint.Load(text, compressed, nil); err != nil {
		panic(err)
	}
	// The second of client-go's handlers sleeps for the time since the last error
	// of any schedule, whose clocks all begin in the same moment.
	utilruntime.ErrorHandlers = nil
	// Schedules are short and leave much behind; memory is there.
	debug.SetGCPercent(600)
	os.Exit(m.Run())
}

// runOne executes a schedule in a bubble of its own.
func runOne(t *testing.T, o Options) (result *Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { result = Run(t, o) })
	if result == nil {
		t.Fatalf("seed %d ended early", o.Seed)
	}
	return result
}

// TestSchedules runs schedules in processes of their own: jitter comes from one
// generator a process, and two schedules beside each other could not repeat.
func TestSchedules(t *testing.T) {
	if *replay != "" || *repeats > 0 {
		t.Skip("something else is asked for")
	}
	began := time.Now()
	outcomes := make([]workerOutcome, *workers)
	var wg sync.WaitGroup
	for n := range *workers {
		wg.Go(func() { outcomes[n] = runWorker(n) })
	}
	wg.Wait()
	violations := 0
	var coverage Coverage
	for _, outcome := range outcomes {
		violations += outcome.Violations
		coverage.Add(outcome.Coverage)
		if outcome.err != nil {
			t.Errorf("%v\n%s", outcome.err, outcome.output)
		}
	}
	fmt.Printf("sim coverage %+v\n", coverage)
	fmt.Printf("sim schedules %d violations %d seconds %.0f\n", *schedules, violations, time.Since(began).Seconds())
}

type workerOutcome struct {
	Violations int
	Coverage   Coverage
	output     string
	err        error
}

// runWorker runs every nth seed in another process.
func runWorker(n int) workerOutcome {
	share := (*schedules - n + *workers - 1) / *workers
	command := exec.Command(os.Args[0], "-test.run=^TestWorker$", "-test.timeout=0",
		"-schedules", strconv.Itoa(share), "-seed", strconv.FormatUint(*firstSeed+uint64(n), 10),
		"-stride", strconv.Itoa(*workers), "-traces", *traces, "-history="+strconv.FormatBool(*verbose))
	// A schedule keeps one thread busy at a time, and what it makes is short-lived.
	command.Env = append(os.Environ(), workerVariable+"=1", "GOMAXPROCS=1", "GOGC=800")
	output := &progressFilter{}
	command.Stdout, command.Stderr = output, output
	err := command.Run()
	outcome := workerOutcome{output: output.kept.String(), err: err}
	for line := range strings.Lines(outcome.output) {
		if rest, ok := strings.CutPrefix(line, workerLine); ok {
			if jsonErr := json.Unmarshal([]byte(rest), &outcome); jsonErr != nil && err == nil {
				outcome.err = jsonErr
			}
		}
	}
	return outcome
}

// progressFilter keeps what a process prints, and shows its progress at once.
type progressFilter struct {
	kept bytes.Buffer
}

func (f *progressFilter) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(progressLine)); ok {
			fmt.Printf("sim: %s", rest)
			continue
		}
		f.kept.Write(line)
	}
	return len(b), nil
}

const (
	// progressEvery is how many schedules a process runs between two lines of
	// progress.
	progressEvery = 500
	progressLine  = "worker progress "
	// workerVariable marks a process that TestSchedules started.
	workerVariable = "HOLDFAST_SIM_WORKER"
	workerLine     = "worker outcome "
)

func TestWorker(t *testing.T) {
	if os.Getenv(workerVariable) == "" {
		t.Skip("it is started by TestSchedules")
	}
	var outcome workerOutcome
	for n := range *schedules {
		result := runOne(t, Options{Seed: *firstSeed + uint64(n)**stride, Verbose: *verbose})
		outcome.Coverage.Add(result.Coverage)
		if len(result.Trace.Violations) > 0 {
			outcome.Violations++
			report(t, result)
		}
		if (n+1)%progressEvery == 0 {
			fmt.Printf("%s%d of %d schedules, %d violations\n", progressLine, n+1, *schedules, outcome.Violations)
		}
	}
	raw, err := json.Marshal(outcome)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\n%s%s\n", workerLine, raw)
}

// historyLines are shown of a failed schedule.
const historyLines = 60

// report tells of a failed schedule: seed, trace file and a readable history.
func report(t *testing.T, result *Result) {
	t.Helper()
	path, err := result.Write(*traces)
	if err != nil {
		path = "not written: " + err.Error()
	}
	end := result.History[max(0, len(result.History)-historyLines):]
	t.Errorf("seed %d: %s\ntrace: %s (all of the history beside it)\nend of the history:\n%s",
		result.Trace.Seed, strings.Join(result.Trace.Violations, "\n"), path, strings.Join(end, "\n"))
}

func TestReplay(t *testing.T) {
	if *replay == "" {
		t.Skip("no trace is given")
	}
	trace, err := ReadTrace(*replay)
	if err != nil {
		t.Fatal(err)
	}
	result := runOne(t, Options{Seed: trace.Seed, Replay: trace, Verbose: true})
	if result.Diverged != nil {
		t.Errorf("seed %d: %v", trace.Seed, result.Diverged)
	}
	if len(result.Trace.Violations) > 0 {
		t.Errorf("seed %d: %s", trace.Seed, strings.Join(result.Trace.Violations, "\n"))
	}
	if t.Failed() || *verbose {
		fmt.Fprintln(os.Stderr, strings.Join(result.History, "\n"))
	}
}

// TestRepeats counts the seeds that give the same schedule twice without a
// trace. It is information, not a judgement: the Go scheduler decides too.
func TestRepeats(t *testing.T) {
	if *repeats == 0 {
		t.Skip("not asked for")
	}
	same := 0
	for n := range *repeats {
		seed := *firstSeed + uint64(n)
		first, second := runOne(t, Options{Seed: seed}), runOne(t, Options{Seed: seed})
		if fmt.Sprint(first.Trace.Decisions) == fmt.Sprint(second.Trace.Decisions) {
			same++
		}
	}
	fmt.Printf("sim seeds %d repeated %d share %.2f\n", *repeats, same, float64(same)/float64(*repeats))
}

// TestUntilViolation stops at the first violation and says after how many
// schedules it came. The mutants are tried by it.
func TestUntilViolation(t *testing.T) {
	if *until == 0 {
		t.Skip("not asked for")
	}
	for n := range *until {
		result := runOne(t, Options{Seed: *firstSeed + uint64(n)})
		if len(result.Trace.Violations) > 0 {
			fmt.Printf("\nfirst violation after %d schedules: %s\n", n+1, result.Trace.Violations[0])
			return
		}
	}
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			scenario, err := ReadScenario(file)
			if err != nil {
				t.Fatal(err)
			}
			var result *Result
			synctest.Test(t, func(t *testing.T) { result = Play(t, scenario) })
			if len(result.Trace.Violations) > 0 {
				end := result.History[max(0, len(result.History)-historyLines):]
				t.Errorf("%s\n%s", strings.Join(result.Trace.Violations, "\n"), strings.Join(end, "\n"))
			}
		})
	}
}
