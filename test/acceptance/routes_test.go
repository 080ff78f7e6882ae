package acceptance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// routeCount is how many routes TestManyRoutes makes; without it nothing is
// measured, because the numbers of a busy machine mislead.
var routeCount = flag.Int("routes", 0, "measure with so many Ingresses; 0: do not measure")

// routeRounds is how often each change is made.
const routeRounds = 15

// TestManyRoutes measures the Ingress library of manifests/examples with real
// objects: a full render, and from the API write to HAProxy's answer the change of
// an endpoint, of a route, and of one that needs a reload, against a reload that
// is asked for by hand. What it asserts is what was served, and whether the worker
// is the same one.
func TestManyRoutes(t *testing.T) {
	if *routeCount == 0 {
		t.Skip("set -routes to measure")
	}
	s := newStage(t)
	r := &routing{stage: s, proxy: s.oneUnpaced()}
	for _, address := range upstreams {
		r.upstream(address)
	}
	r.fill(*routeCount)
	r.useIngressLibrary()
	last := fmt.Sprintf("h%d.example", *routeCount-1)
	s.await("the last route is served", func(ctx context.Context) error { return r.answers(ctx, last, "/", upstreams[0]) })
	s.settle()
	s.noteRender("all routes")

	reloaded := r.measure("an endpoint, API write → answer", func(round int) (string, string, string) {
		to := upstreams[(round+1)%2]
		r.point("svc-7", to)
		return "h7.example", "/", to
	})
	// HAProxy deletes no server that still has idle connections, so that a vanished
	// endpoint may cost a reload.
	t.Logf("%d changes of an endpoint: the worker was replaced %d times", routeRounds, reloaded)
	// Elsewhere than what answers the host's other paths.
	r.point("svc-9", upstreams[1])
	s.await("the other backend is served", func(ctx context.Context) error { return r.answers(ctx, "h9.example", "/", upstreams[1]) })
	s.settle()
	reloaded = r.measure("a route to a known backend, API write → answer", func(round int) (string, string, string) {
		path := fmt.Sprintf("/p%d", round)
		r.route("h8.example", path, "svc-9", fmt.Sprintf("route-8-%d", round))
		return "h8.example", path, upstreams[1]
	})
	r.wantReloads("changes of a route", reloaded, 0)
	s.noteRender("one change")
	for round := range routeRounds {
		r.service(fmt.Sprintf("new-%d", round), upstreams[1]) // of which no route speaks yet
	}
	s.settle()
	reloaded = r.measure("a route with a new backend, API write → answer", func(round int) (string, string, string) {
		name := fmt.Sprintf("new-%d", round)
		r.route(name+".example", "/", name, name)
		return name + ".example", "/", upstreams[1]
	})
	r.wantReloads("new backends", reloaded, routeRounds)
	s.settle()
	r.reloadByHand()
}

// oneUnpaced leaves one proxy, whose reloads do not wait for each other.
func (s *stage) oneUnpaced() *corev1.Pod {
	s.t.Helper()
	s.stopAll(proxyDeployment, proxyName)
	deployments := s.core.AppsV1().Deployments(s.namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		d, err := deployments.Get(s.t.Context(), proxyDeployment, metav1.GetOptions{})
		if err != nil {
			return err
		}
		containers := d.Spec.Template.Spec.Containers
		at := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "agent" })
		containers[at].Args = append(containers[at].Args, "--min-reload-interval=0s")
		_, err = deployments.Update(s.t.Context(), d, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.scale(proxyDeployment, 1)
	s.await("one proxy is there", func(context.Context) error { return s.pods.allReady(proxyName, 1) })
	return s.pods.living(proxyName)[0]
}

// upstreams are addresses that belong to the cluster's node.
var upstreams = [2]string{"10.244.240.1", "10.244.240.2"}

const upstreamPort = 18080

// routing is a stage with many routes and one proxy.
type routing struct {
	*stage
	proxy *corev1.Pod
}

// upstream is a server that answers with its address.
func (r *routing) upstream(address string) {
	r.t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(upstreamPort)))
	if err != nil {
		r.t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(address)) // a client that went away asks again
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	r.t.Cleanup(func() {
		if err := errors.Join(server.Close(), <-done); !errors.Is(err, http.ErrServerClosed) {
			r.t.Errorf("upstream %s: %v", address, err)
		}
	})
}

// useIngressLibrary has the stage's template render what manifests/examples does,
// for this namespace alone.
func (r *routing) useIngressLibrary() {
	r.t.Helper()
	raw, err := os.ReadFile("../../manifests/examples/ingress.yaml")
	if err != nil {
		r.t.Fatal(err)
	}
	var library v1alpha1.HAProxyTemplateConfig
	if err := yaml.UnmarshalStrict(raw, &library); err != nil {
		r.t.Fatal(err)
	}
	templates := r.haptic.HapticV1alpha1().HAProxyTemplateConfigs(r.namespace)
	template, err := templates.Get(r.t.Context(), templateName, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	controller, dataplane := template.Spec.Controller, template.Spec.Dataplane
	template.Spec = library.Spec
	template.Spec.Controller, template.Spec.Dataplane = controller, dataplane
	for kind, watched := range template.Spec.WatchedResources {
		watched.Namespaces = []string{r.namespace}
		template.Spec.WatchedResources[kind] = watched
	}
	if _, err := templates.Update(r.t.Context(), template, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// answers wants a request for that host and path to end at the upstream.
func (r *routing) answers(ctx context.Context, host, path, upstream string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(r.proxy.Status.PodIP, "8080")+path, http.NoBody)
	if err != nil {
		return err
	}
	request.Host = host
	answer, err := r.web.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body := make([]byte, 64)
	n, _ := answer.Body.Read(body) // what is short of the address is no match
	if got := string(body[:n]); got != upstream {
		return fmt.Errorf("%s%s is answered %s %q, want %q", host, path, answer.Status, got, upstream)
	}
	return nil
}

// measure makes a change again and again, each when the one before is settled,
// and returns how often the worker was replaced.
func (r *routing) measure(what string, change func(round int) (host, path, upstream string)) (reloads int) {
	r.t.Helper()
	every := time.NewTicker(2 * time.Millisecond)
	defer every.Stop()
	for round := range routeRounds {
		before := r.accounts([]*corev1.Pod{r.proxy})[r.proxy.Name]
		began := time.Now()
		host, path, upstream := change(round)
		for err := errors.New("not asked yet"); err != nil; {
			if time.Since(began) > bound {
				r.t.Fatalf("%s, round %d: not within %s: %v", what, round, bound, err)
			}
			<-every.C // whoever asks without a pause slows down who is asked
			err = r.answers(r.t.Context(), host, path, upstream)
		}
		note(r.t, what, time.Since(began))
		r.settle()
		if after := r.accounts([]*corev1.Pod{r.proxy})[r.proxy.Name]; after.WorkerPID != before.WorkerPID {
			reloads++
		}
	}
	return reloads
}

func (r *routing) wantReloads(what string, got, want int) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%d %s: the worker was replaced %d times, want %d", routeRounds, what, got, want)
	}
}

// noteRender keeps how long the leader's last render took, and what it holds.
func (s *stage) noteRender(when string) {
	s.t.Helper()
	metrics, err := s.controller(s.t.Context(), s.awaitLeader(nil), "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("leader after %s:\n%s", when, samples(metrics, "holdfast_controller_render_duration_seconds_sum",
		"holdfast_controller_render_duration_seconds_count", "process_resident_memory_bytes", "go_memstats_heap_inuse_bytes"))
}

// reloadByHand asks the pod's master for a reload, as a script would, and times it
// until the new worker answers for itself.
func (r *routing) reloadByHand() {
	r.t.Helper()
	run := filepath.Join(r.folder(r.proxy), "run")
	for range routeRounds {
		r.await("the master answers", func(context.Context) error {
			_, err := r.ask(filepath.Join(run, "master.sock"), "show proc")
			return err
		})
		info, err := r.ask(filepath.Join(run, "worker.sock"), "show info")
		if err != nil {
			r.t.Fatal(err)
		}
		_, old, _ := strings.Cut(info, "\nPid: ")
		old, _, _ = strings.Cut(old, "\n")
		began := time.Now()
		// A master that starts itself anew may answer, or break the connection.
		_, _ = r.ask(filepath.Join(run, "master.sock"), "reload")
		for {
			r.await("the master answers", func(context.Context) error {
				_, err := r.ask(filepath.Join(run, "master.sock"), "show proc")
				return err
			})
			info, err := r.ask(filepath.Join(run, "worker.sock"), "show info")
			if err == nil && strings.Contains(info, "\nPid: ") && !strings.Contains(info, "\nPid: "+old+"\n") {
				break
			}
			if time.Since(began) > bound {
				r.t.Fatalf("no new worker answers: %v", err)
			}
		}
		note(r.t, "reload by hand → the new worker answers", time.Since(began))
		r.settle()
	}
}

// ask gives a socket of HAProxy one command.
func (r *routing) ask(socket, command string) (string, error) {
	dialer := net.Dialer{Timeout: bound}
	conn, err := dialer.DialContext(r.t.Context(), "unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return "", err
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 1<<20))
	return string(answer), err
}
