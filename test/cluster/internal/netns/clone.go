package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// ForbiddenError says that the kernel refused namespaces, and what would
// allow them on this machine.
type ForbiddenError struct {
	Cause error
	Hints []string
}

func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("this machine does not let us create namespaces (%v).\nWhat allows it:\n  - %s", e.Cause, strings.Join(e.Hints, "\n  - "))
}

// Unwrap answers the kernel's error.
func (e *ForbiddenError) Unwrap() error { return e.Cause }

const namespaces = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// Start starts a command as the first process of new namespaces. It dies with
// the thread that called, so the caller locks itself to one. With root's
// powers no user namespace is made: real users then exist inside.
func Start(build func() *exec.Cmd) (*exec.Cmd, error) {
	var failure error
	for _, withUser := range []bool{false, true} {
		if !withUser && os.Geteuid() != 0 {
			continue
		}
		cmd := build()
		cmd.SysProcAttr = attributes(withUser)
		err := cmd.Start()
		if err == nil {
			return cmd, nil
		}
		failure = err
		if !errors.Is(err, syscall.EPERM) {
			break
		}
	}
	return nil, Explain(failure)
}

func attributes(withUser bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: namespaces,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
	}
	if withUser {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// Explain turns a refusal into one that says what to do about it.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	refusals := []error{syscall.EPERM, syscall.EACCES, syscall.ENOSPC, syscall.EUSERS, syscall.EINVAL}
	for _, refusal := range refusals {
		if errors.Is(err, refusal) {
			return &ForbiddenError{Cause: err, Hints: hints(readSysctl, os.Geteuid())}
		}
	}
	return err
}

// hints reads the switches that are known to forbid namespaces and names those
// that are in the forbidding position; all of them when none is.
func hints(read func(string) (string, bool), uid int) []string {
	var found []string
	if value, ok := read("kernel.unprivileged_userns_clone"); ok && value == "0" && uid != 0 {
		found = append(found, "sudo sysctl -w kernel.unprivileged_userns_clone=1   (it is 0 now)")
	}
	if value, ok := read("kernel.apparmor_restrict_unprivileged_userns"); ok && value == "1" && uid != 0 {
		found = append(found, "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0   (it is 1 now), or an AppArmor profile with \"userns,\" for this binary")
	}
	for _, name := range []string{"user.max_user_namespaces", "user.max_net_namespaces", "user.max_pid_namespaces"} {
		if value, ok := read(name); ok && value == "0" {
			found = append(found, fmt.Sprintf("sudo sysctl -w %s=1024   (it is 0 now)", name))
		}
	}
	if len(found) == 0 {
		found = append(found, "in a container: run it with CAP_SYS_ADMIN and without the seccomp filter (docker run --privileged, or --cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined)",
			"as an ordinary user: run it as root, or allow user namespaces (kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0)")
	}
	return found
}

func readSysctl(name string) (string, bool) {
	text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	return strings.TrimSpace(string(text)), err == nil
}
