package aggregation

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-project/holdfast/test/owncluster"
)

// relay is a route to kube-apiserver that can be blocked: connections stay, and
// new ones are taken, but nothing arrives.
type relay struct {
	listener net.Listener
	target   string
	// open is held for writing while the route is blocked.
	open    sync.RWMutex
	running sync.WaitGroup
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener, target: target}
	r.running.Go(r.accept)
	t.Cleanup(func() { listener.Close(); r.running.Wait() })
	return r
}

func (r *relay) accept() {
	for {
		from, err := r.listener.Accept()
		if err != nil {
			return // it was closed
		}
		r.running.Go(func() { r.carry(from) })
	}
}

func (r *relay) carry(from net.Conn) {
	defer from.Close()
	r.open.RLock()
	to, err := net.Dial("tcp", r.target)
	r.open.RUnlock()
	if err != nil {
		return
	}
	defer to.Close()
	var back sync.WaitGroup
	back.Go(func() { r.copy(from, to) })
	r.copy(to, from)
	back.Wait()
}

// copy ends both connections when one of them ends, so that the other copy ends.
func (r *relay) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		r.open.RLock()
		_, err = to.Write(buffer[:n])
		r.open.RUnlock()
		if err != nil {
			return
		}
	}
}

func (r *relay) block()   { r.open.Lock() }
func (r *relay) restore() { r.open.Unlock() }

// routedBy is a kubeconfig that leads through a relay.
func routedBy(t *testing.T) (string, *relay) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	direct := owncluster.Config(t)
	address, err := net.ResolveTCPAddr("tcp", hostPort(direct.Host))
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(t, address.String())
	for _, c := range config.Clusters {
		c.Server, c.TLSServerName = "https://"+r.listener.Addr().String(), address.IP.String()
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path, r
}
