package integration

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The herd runs in a process of its own, inside the cluster's network, where
// the agents' addresses are: this test's binary, started once more. It keeps two
// controllers running, each of which reaches the API server through a proxy of
// the herd, which counts writes and kills.

const (
	// herdVariable carries the folder of the herd's process.
	herdVariable = "HOLDFAST_LEADERKILL_DIR"
	// roundLimit bounds the time until a leader is at its nth write.
	roundLimit = 30 * time.Second
	// electionWrites are a leader's writes of its Lease that count: it takes it
	// and claims an epoch. The rest are renewals.
	electionWrites = 2
)

// init turns this binary into a herd before it parses flags or starts a demo.
func init() {
	dir := os.Getenv(herdVariable)
	if dir == "" {
		return
	}
	if err := runHerd(dir); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// herd is the process as the test sees it.
type herd struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Scanner
	dir   string
	// stop ends the controllers gracefully, and waits for the process.
	stop func() error
}

// killCount is what a herd says in the end.
type killCount struct{ kills, writes int }

func (k *killing) herd(ctx context.Context) *herd {
	k.t.Helper()
	self, err := os.Executable()
	if err != nil {
		k.t.Fatal(err)
	}
	h := &herd{cmd: cluster(ctx, "exec", "--", self), dir: k.dir}
	h.cmd.Env = append(os.Environ(), herdVariable+"="+k.dir)
	h.cmd.Stderr = os.Stderr
	h.cmd.Cancel = func() error { return h.stdin.Close() }
	h.cmd.WaitDelay = 30 * time.Second
	if h.stdin, err = h.cmd.StdinPipe(); err != nil {
		k.t.Fatal(err)
	}
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	h.out = bufio.NewScanner(stdout)
	if err := h.cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	h.stop = sync.OnceValue(func() error {
		_ = h.stdin.Close() // it may have ended already
		return h.cmd.Wait()
	})
	k.t.Cleanup(func() { _ = h.stop() }) // its error is told, unless another one came first
	return h
}

// rounds lets the herd begin, and reads its account until it has killed enough.
func (h *herd) rounds() (killCount, error) {
	var count killCount
	if _, err := io.WriteString(h.stdin, "begin\n"); err != nil {
		return count, fmt.Errorf("beginning: %w", err)
	}
	for h.out.Scan() {
		line := h.out.Text()
		if rest, ok := strings.CutPrefix(line, "error "); ok {
			return count, fmt.Errorf("%s", rest)
		}
		if _, err := fmt.Sscanf(line, "done writes %d", &count.writes); err == nil {
			return count, nil
		}
		fmt.Println("leaderkill", line)
		count.kills++
	}
	return count, fmt.Errorf("the herd ended after %d leaders: %w", count.kills, cmp.Or(h.out.Err(), io.ErrUnexpectedEOF))
}

// log is the end of what the controllers said.
func (h *herd) log() string {
	raw, err := os.ReadFile(filepath.Join(h.dir, "controllers.log"))
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-6000):])
}

// shepherd keeps controllers and counts their writes.
type shepherd struct {
	dir       string
	upstream  *url.URL
	transport http.RoundTripper
	log       *os.File
	// kills gets one line for each killed leader.
	kills chan string

	mu sync.Mutex
	// nth is the write at which the next leader dies, 0 for none. Behind says
	// that the API server has it by then.
	nth    int
	behind bool
	writes int
	sheep  []*controllerProcess
}

// controllerProcess is one start of a controller.
type controllerProcess struct {
	*shepherd
	name  string
	cmd   *exec.Cmd
	ended chan struct{}

	// Both belong to the shepherd's lock.
	own, elections int
	dead           bool
}

func runHerd(dir string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	s := &shepherd{dir: dir, kills: make(chan string, 1)}
	if s.upstream, err = url.Parse(config.Host); err != nil {
		return err
	}
	if s.transport, err = rest.TransportFor(config); err != nil {
		return err
	}
	if s.log, err = os.Create(filepath.Join(dir, "controllers.log")); err != nil {
		return err
	}
	defer s.log.Close()
	defer s.end()
	for range 2 {
		if err := s.start(); err != nil {
			return err
		}
	}
	// The test says when there is something to lose, and ends the herd by closing.
	orders := bufio.NewReader(os.Stdin)
	if _, err := orders.ReadString('\n'); err != nil {
		return err
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, orders)
	}()
	if err := s.killAll(over); err != nil {
		return err
	}
	fmt.Println("done writes", s.count())
	<-over
	return nil
}

func (s *shepherd) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// killAll kills one leader after another until it is over.
func (s *shepherd) killAll(over <-chan struct{}) error {
	for n := 1; n <= killRounds; n++ {
		s.mu.Lock()
		s.nth, s.behind = n, n%2 == 0
		s.mu.Unlock()
		select {
		case line := <-s.kills:
			fmt.Println(line)
		case <-over:
			return fmt.Errorf("the test ended")
		case <-time.After(roundLimit):
			return fmt.Errorf("no leader came to its write %d within %s", n, roundLimit)
		}
		if err := s.start(); err != nil {
			return err
		}
	}
	return nil
}

// start runs a controller behind a proxy of its own.
func (s *shepherd) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &controllerProcess{shepherd: s, name: "c" + strconv.Itoa(len(s.sheep)+1), ended: make(chan struct{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: c.handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends when it is closed
	kubeconfig := filepath.Join(s.dir, c.name+".kubeconfig")
	err = os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"clusters":[{"name":"c","cluster":{"server":"http://%s"}}],`+
		`"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`, listener.Addr()), 0o600)
	if err != nil {
		return err
	}
	c.cmd = exec.Command(filepath.Join(os.Getenv("HOLDFAST_BIN"), "holdfast-controller"),
		"--kubeconfig="+kubeconfig, "--namespace="+killed, "--template="+killed, "--identity="+c.name,
		"--agent-cert-dir="+filepath.Join(s.dir, "controller"), "--gate-dir="+s.dir, "--health-address=127.0.0.1:0")
	c.cmd.Stdout, c.cmd.Stderr = s.log, s.log
	if err := c.cmd.Start(); err != nil {
		return err
	}
	s.sheep = append(s.sheep, c)
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait() // killed, most of them
		_ = server.Close()
	}()
	return nil
}

// end stops what still runs, and waits for it.
func (s *shepherd) end() {
	for _, c := range s.sheep {
		_ = c.cmd.Process.Signal(os.Interrupt) // most have ended
	}
	for _, c := range s.sheep {
		<-c.ended
	}
}
