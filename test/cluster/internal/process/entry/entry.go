package entry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

const prSetNoNewPrivs = 38

// init takes the process over when it was started as a container; see the
// package comment for why it does not wait for main.
func init() {
	if len(os.Args) == 0 || os.Args[0] != Marker {
		return
	}
	runtime.LockOSThread()
	syscall.CloseOnExec(SpecFD)
	syscall.CloseOnExec(FailureFD)
	failure := become()
	text, err := json.Marshal(failure)
	if err == nil {
		_, _ = syscall.Write(FailureFD, text)
	}
	os.Exit(1)
}

// become returns only when it failed.
func become() *Failure {
	var spec Spec
	if err := json.NewDecoder(os.NewFile(SpecFD, "spec")).Decode(&spec); err != nil {
		return &Failure{ReasonCreate, fmt.Sprintf("reading the container's description: %v", err)}
	}
	if err := buildRoot(spec); err != nil {
		return &Failure{ReasonCreate, err.Error()}
	}
	if err := settle(spec); err != nil {
		return &Failure{ReasonCreate, err.Error()}
	}
	path, err := lookPath(spec.Args[0], spec.Env)
	if err != nil {
		return &Failure{ReasonRun, err.Error()}
	}
	if err := syscall.Exec(path, spec.Args, spec.Env); err != nil {
		return &Failure{ReasonRun, fmt.Sprintf("starting %s: %v", path, err)}
	}
	return nil
}

// settle gives the process its name, folder and user, in that order: the user
// may lack the rights for the rest.
func settle(spec Spec) error {
	if err := syscall.Sethostname([]byte(spec.Hostname)); err != nil {
		return fmt.Errorf("setting host name: %w", err)
	}
	if spec.Dir != "" {
		// Runtimes create a missing working directory.
		_ = os.MkdirAll(spec.Dir, 0o755)
		if err := os.Chdir(spec.Dir); err != nil {
			return fmt.Errorf("entering workingDir: %w", err)
		}
	}
	if spec.NoNewPrivileges {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0); errno != 0 {
			return fmt.Errorf("forbidding new privileges: %w", errno)
		}
	}
	if spec.User == nil {
		return nil
	}
	// Programs that open /dev/stdout need to own what is behind it.
	for _, output := range []int{1, 2} {
		_ = syscall.Fchown(output, spec.User.UID, spec.User.GID)
	}
	if err := syscall.Setgroups(spec.User.Groups); err != nil {
		return fmt.Errorf("setting groups: %w", err)
	}
	if err := syscall.Setgid(spec.User.GID); err != nil {
		return fmt.Errorf("setting group: %w", err)
	}
	if err := syscall.Setuid(spec.User.UID); err != nil {
		return fmt.Errorf("setting user: %w", err)
	}
	return nil
}

// lookPath finds the command by the container's PATH, in the container's files.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
		}
	}
	denied := ""
	for _, folder := range filepath.SplitList(path) {
		candidate := filepath.Join(folder, name)
		info, err := os.Stat(candidate)
		if errors.Is(err, fs.ErrPermission) {
			denied = candidate
		}
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return candidate, nil
		}
	}
	if denied != "" {
		return "", fmt.Errorf("command %s: this user may not read %s", name, denied)
	}
	return "", fmt.Errorf("command %s was not found in PATH %s", name, path)
}
