package gate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/plan"
)

const (
	// maxOutputBytes bounds what is kept of HAProxy's answer.
	maxOutputBytes = 64 << 10
	// maxMessageBytes and maxAlerts bound what is told of it.
	maxMessageBytes = 1 << 10
	maxAlerts       = 5
	// killDelay is how long the pipes may stay open after the group was killed.
	killDelay = 2 * time.Second
)

// version asks the binary, because it can be replaced under a running process.
func (g *Gate) version(ctx context.Context) (string, error) {
	out, err := g.exec(ctx, "-v")
	if err != nil {
		return "", fmt.Errorf("asking haproxy for its version: %w", err)
	}
	line, _, _ := strings.Cut(out, "\n")
	fields := strings.Fields(line)
	if len(fields) < 3 || !strings.EqualFold(fields[0], "haproxy") {
		return "", fmt.Errorf("%s -v does not answer as HAProxy does", g.config.Binary)
	}
	return fields[2], nil
}

// run checks the output in a folder that nobody else can read: it holds keys.
func (g *Gate) run(ctx context.Context, output *checkpoint.Output) (verdict Verdict) {
	private, err := newFolder(g.config.Dir)
	if err != nil {
		return Verdict{Outcome: Unknown, Message: "making the gate's folder in " + cmp.Or(g.config.Dir, os.TempDir()) + ": " + cause(err)}
	}
	defer func() {
		if err := private.remove(); err != nil {
			verdict = Verdict{Outcome: Unknown, Message: "removing the gate's folder: " + cause(err)}
		}
	}()
	dir := private.path
	if err := write(dir, output); err != nil {
		return Verdict{Outcome: Unknown, Message: "writing the output for its check: " + cause(err)}
	}
	answer, err := g.exec(ctx, "-c", "-dr", "-f", filepath.Join(dir, plan.ConfigPath))
	var exit *exec.ExitError
	switch {
	case err == nil:
		return Verdict{Outcome: Valid}
	case errors.As(err, &exit) && exit.Exited():
		message, line := explain(strings.ReplaceAll(answer, dir+"/", ""))
		if message == "" {
			message = "haproxy ended with " + exit.String()
		}
		return Verdict{Outcome: Refused, Message: message, Line: line}
	default:
		return Verdict{Outcome: Unknown, Message: err.Error()}
	}
}

// cause leaves out the path, which is another with every check: the message is
// told once for each text, and the same trouble must not be news each time.
func cause(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return fmt.Sprintf("%s: %v", at.Op, at.Err)
	}
	return err.Error()
}

func write(dir string, output *checkpoint.Output) error {
	if err := os.WriteFile(filepath.Join(dir, plan.ConfigPath), output.Configuration, 0o600); err != nil {
		return err
	}
	for _, a := range output.Artifacts {
		if !filepath.IsLocal(a.RuntimePath) {
			return fmt.Errorf("path %q leads out of the output", a.RuntimePath)
		}
		path := filepath.Join(dir, a.RuntimePath)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, a.Content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// exec runs the binary in a process group of its own, so that whatever it
// started goes with it. It does not run in the output's folder, since the pods'
// HAProxy does not either: a relative path that HAProxy resolves only once all
// is parsed would be found here and nowhere else.
func (g *Gate) exec(ctx context.Context, args ...string) (string, error) {
	out := &boundedOutput{}
	cmd := exec.CommandContext(ctx, g.config.Binary, args...)
	cmd.Dir = "/"
	cmd.Env = []string{}
	for name, value := range Environment {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	slices.Sort(cmd.Env)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killDelay
	err := cmd.Run()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w: ended after %s", cause, g.config.Timeout)
	}
	return out.String(), err
}

// boundedOutput keeps the start and drops the rest.
type boundedOutput struct{ bytes.Buffer }

func (b *boundedOutput) Write(p []byte) (int, error) {
	if room := maxOutputBytes - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

var (
	// prefix is what stands before a message and differs from run to run.
	prefix = regexp.MustCompile(`^\[(\w+)\]\s+\(\d+\) : (?:config : )?`)
	place  = regexp.MustCompile(`\[haproxy\.cfg:(\d+)\]`)
)

// explain keeps HAProxy's alerts, without process numbers, so that the same
// fault is the same text each time.
func explain(answer string) (message string, line int) {
	var alerts, rest []string
	for text := range strings.Lines(answer) {
		text = strings.TrimSpace(strings.ToValidUTF8(text, "?"))
		found := prefix.FindStringSubmatch(text)
		bare := strings.TrimSpace(prefix.ReplaceAllString(text, ""))
		switch {
		case bare == "" || strings.HasPrefix(bare, "Error(s) found in") || strings.HasPrefix(bare, "Fatal errors found"):
		case found == nil:
			rest = append(rest, bare)
		case found[1] == "ALERT":
			alerts = append(alerts, bare)
		}
	}
	if len(alerts) == 0 {
		alerts = rest
	}
	if len(alerts) > maxAlerts {
		more := len(alerts) - maxAlerts
		alerts = append(alerts[:maxAlerts:maxAlerts], fmt.Sprintf("and %d more", more))
	}
	message = strings.Join(alerts, "; ")
	if len(message) > maxMessageBytes {
		message = strings.ToValidUTF8(message[:maxMessageBytes], "") + " …"
	}
	if found := place.FindStringSubmatch(message); found != nil {
		line, _ = strconv.Atoi(found[1]) // the pattern admits digits only
	}
	return message, line
}
