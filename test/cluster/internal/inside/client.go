package inside

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
)

// Exec runs a command inside the namespace of a running cluster, with our
// standard files, and answers its exit code. Signals are passed on.
func Exec(dir state.Dir, args []string) (int, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: dir.ControlSocket(), Net: "unixpacket"})
	if err != nil {
		return exitNotStarted, fmt.Errorf("reaching the cluster: %w", err)
	}
	defer conn.Close()
	work, err := os.Getwd()
	if err != nil {
		return exitNotStarted, fmt.Errorf("finding the working directory: %w", err)
	}
	text, err := json.Marshal(request{Args: args, Env: environment(dir, os.Environ()), Dir: work})
	if err != nil {
		return exitNotStarted, fmt.Errorf("encoding request: %w", err)
	}
	if len(text) > maxRequestBytes {
		return exitNotStarted, errors.New("arguments and environment are too large")
	}
	// A large environment may exceed the socket's default buffer.
	_ = conn.SetWriteBuffer(2 * maxRequestBytes)
	if _, _, err := conn.WriteMsgUnix(text, unix.UnixRights(0, 1, 2), nil); err != nil {
		return exitNotStarted, fmt.Errorf("sending request: %w", err)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	go sendSignals(conn, signals)
	return await(conn)
}

func sendSignals(conn *net.UnixConn, signals <-chan os.Signal) {
	for s := range signals {
		number, ok := s.(syscall.Signal)
		if !ok {
			continue
		}
		if text, err := json.Marshal(event{Signal: int(number)}); err == nil {
			_, _ = conn.Write(text)
		}
	}
}

func await(conn *net.UnixConn) (int, error) {
	buffer := make([]byte, 64<<10)
	n, err := conn.Read(buffer)
	if err != nil || n == 0 {
		return exitNotStarted, errors.New("the cluster ended before the command did")
	}
	var answer event
	if err := json.Unmarshal(buffer[:n], &answer); err != nil {
		return exitNotStarted, fmt.Errorf("reading answer: %w", err)
	}
	if answer.Error != "" {
		return answer.Code, errors.New(answer.Error)
	}
	return answer.Code, nil
}

// environment is the caller's, with our kubectl first and the kubeconfig that
// works inside.
func environment(dir state.Dir, base []string) []string {
	var out []string
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, entry := range base {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "PATH":
			path = value
		case "KUBECONFIG", state.EnvKubectlCache:
		default:
			out = append(out, entry)
		}
	}
	return append(out, "PATH="+dir.ToolDir()+":"+path, "KUBECONFIG="+dir.InsideKubeconfig(), state.EnvKubectlCache+"="+dir.KubectlCache())
}
