package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
	"github.com/holdfast-project/holdfast/test/cluster/internal/supervisor"
)

const (
	lockTime     = 3 * time.Second
	logTailLines = 15
)

type upOptions struct {
	binDir  string
	detach  bool
	require []string
}

func newUp(dir func() (state.Dir, error)) *cobra.Command {
	options := upOptions{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the cluster and wait until it is usable",
		Long: `Start the cluster and wait until kube-apiserver is ready, the node is Ready and a
pod passes admission. A cluster that runs already is left alone (exit code 0);
what a dead one left behind is cleaned up first.`,
		Example: `  devcluster up
  devcluster up --bin ./bin --require haproxy
  devcluster up --state /tmp/second --detach=false   # Ctrl-C stops and deletes it`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := dir()
			if err != nil {
				return err
			}
			return up(cmd.Context(), d, options)
		},
	}
	cmd.Flags().StringVar(&options.binDir, "bin", "", "folder that comes first in the PATH of every container (default: where this binary is)")
	cmd.Flags().BoolVar(&options.detach, "detach", true, "return when the cluster is ready; with false, stay and stop it on Ctrl-C")
	cmd.Flags().StringSliceVar(&options.require, "require", nil, "programs that must be installed, for example haproxy")
	return cmd
}

func up(ctx context.Context, dir state.Dir, options upOptions) error {
	if err := checkRequired(options.require); err != nil {
		return err
	}
	binDir, err := resolveBin(options.binDir)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	lock, err := dir.LockCommand(waiting)
	if err != nil {
		return err
	}
	defer lock.Release()
	if dir.Alive() {
		fmt.Printf("A cluster is running already in %s; nothing was changed.\n\n", dir)
		return printStatus(ctx, dir)
	}
	if err := dir.Claimable(); err != nil {
		return err
	}
	if old, err := dir.Read(); err == nil {
		fmt.Printf("Found a dead cluster in %s (supervisor %d is gone, its processes died with it); deleting what it left.\n", dir, old.PID)
		if err := clean(dir); err != nil {
			return err
		}
	}
	return startAndFollow(ctx, dir, binDir, options.detach, lock)
}

// clean deletes everything but the lock that we hold.
func clean(dir state.Dir) error {
	entries, err := os.ReadDir(string(dir))
	if err != nil {
		return fmt.Errorf("reading state directory: %w", err)
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".lock") {
			continue
		}
		if err := os.RemoveAll(dir.Path(entry.Name())); err != nil {
			return fmt.Errorf("deleting what a dead cluster left: %w", err)
		}
	}
	return nil
}

func startAndFollow(ctx context.Context, dir state.Dir, binDir string, detach bool, lock *state.Lock) error {
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	fmt.Printf("Starting a development cluster in %s\n", dir)
	cmd, reports, err := startSupervisor(dir, binDir)
	if err != nil {
		return err
	}
	defer reports.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	last := follow(reports)
	if last.Error != "" || !last.Done {
		<-ended
		return failedStart(ctx, dir, last)
	}
	if err := printStatus(ctx, dir); err != nil {
		return err
	}
	if detach {
		stop()
		return nil
	}
	lock.Release()
	fmt.Println("\nCtrl-C stops and deletes it.")
	<-ended
	return down(context.WithoutCancel(ctx), dir)
}

func failedStart(ctx context.Context, dir state.Dir, last supervisor.Report) error {
	switch {
	case ctx.Err() != nil:
		return errors.Join(errors.New("interrupted; the start was undone"), dir.Remove())
	case last.Forbidden:
		return errors.Join(errors.New(last.Error), dir.Remove())
	case last.Error == "":
		last.Error = "the supervisor ended without a word"
	}
	return fmt.Errorf("%s\nThe logs are in %s. End of supervisor.log:\n%s\nDelete them with: devcluster down", last.Error, dir.Path("logs"), tail(dir.Log("supervisor"), logTailLines))
}

func startSupervisor(dir state.Dir, binDir string) (*exec.Cmd, io.ReadCloser, error) {
	if err := os.MkdirAll(dir.Path("logs"), 0o700); err != nil {
		return nil, nil, fmt.Errorf("creating state directory: %w", err)
	}
	log, err := os.OpenFile(dir.Log("supervisor"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("opening supervisor's log: %w", err)
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("creating report pipe: %w", err)
	}
	defer write.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"devcluster", "supervise", string(dir), binDir}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{write}
	// Of its own session, so that closing the terminal does not end it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir = "/"
	if err := cmd.Start(); err != nil {
		_ = read.Close()
		return nil, nil, fmt.Errorf("starting supervisor: %w", err)
	}
	return cmd, read, nil
}

func follow(reports io.Reader) supervisor.Report {
	var last supervisor.Report
	lines := bufio.NewScanner(reports)
	for lines.Scan() {
		var report supervisor.Report
		if json.Unmarshal(lines.Bytes(), &report) != nil {
			continue
		}
		last = report
		switch {
		case report.Step != "":
			fmt.Printf("  %5.1fs  %s\n", report.Seconds, report.Step)
		case report.Done && report.Error == "":
			fmt.Printf("  %5.1fs  ready\n\n", report.Seconds)
		}
	}
	return last
}

func checkRequired(programs []string) error {
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is required and not installed; on Debian: apt-get install %s", program, program)
		}
	}
	return nil
}

func resolveBin(named string) (string, error) {
	if named == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("finding this binary: %w", err)
		}
		named = filepath.Dir(self)
	}
	abs, err := filepath.Abs(named)
	if err != nil {
		return "", fmt.Errorf("resolving --bin: %w", err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", fmt.Errorf("--bin %s is not a folder", abs)
	}
	return abs, nil
}

func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}
