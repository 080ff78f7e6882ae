package acceptance

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// processes are those of a pod that run this command, the first of them first:
// a container of the development cluster is a process of the same machine.
func (s *stage) processes(pod *corev1.Pod, command string) []int {
	s.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		s.t.Fatal(err)
	}
	var found []int
	for _, folder := range all {
		// A process that has ended meanwhile has neither.
		line, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		environment, _ := os.ReadFile(filepath.Join(folder, "environ"))
		name, _, _ := strings.Cut(string(line), "\x00")
		if filepath.Base(name) != command || !bytes.Contains(environment, []byte("HOSTNAME="+pod.Name+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			s.t.Fatal(err)
		}
		found = append(found, pid)
	}
	if len(found) == 0 {
		s.t.Fatalf("pod %s runs no %s", pod.Name, command)
	}
	return found
}

// signal reaches every process of a pod that runs this command.
func (s *stage) signal(pod *corev1.Pod, command string, signal syscall.Signal) {
	s.t.Helper()
	for _, pid := range s.processes(pod, command) {
		// The end of the first may have ended the others.
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			s.t.Fatal(fmt.Errorf("signal %s to %s of pod %s: %w", signal, command, pod.Name, err))
		}
	}
}

// folder is where the test finds what a pod's agent keeps.
func (s *stage) folder(pod *corev1.Pod) string {
	s.t.Helper()
	return fmt.Sprintf("/proc/%d/root/var/lib/holdfast", s.processes(pod, "holdfast-agent")[0])
}
