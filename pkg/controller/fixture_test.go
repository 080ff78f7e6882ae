package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/controller/gate"
	"github.com/holdfast-project/holdfast/pkg/fencing"
	"github.com/holdfast-project/holdfast/pkg/record"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

const (
	namespace = "edge"
	tplName   = "web"
	// throttle is long, so that a receipt can be caught waiting.
	throttle = time.Minute
)

var retainedName = checkpoint.RetainedStateLeaseName(tplName)

// installation is whole controllers around a strict API server and a fleet of
// fake agents, in virtual time.
type installation struct {
	t      *testing.T
	server *fakeapi.Server
	core   kubernetes.Interface
	haptic versioned.Interface
	fleet  *proxyPods
	gate   Gate
	// documents answers for every server that httpResources name.
	documents http.RoundTripper
	// described changes what the API server says of the stored kinds.
	described func(document map[string]any)
	pods      int
	ended     []func()
}

// install runs a test in a bubble and ends what it started.
func install(t *testing.T, test func(t *testing.T, in *installation)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in := &installation{t: t, server: fakeapi.New(fakeapi.Options{}), fleet: &proxyPods{all: map[string]*proxyPod{}}, gate: passGate{}}
		in.core = kubernetes.NewForConfigOrDie(in.server.Config(fakeapi.Admin))
		in.haptic = versioned.NewForConfigOrDie(in.server.Config(fakeapi.Admin))
		defer func() {
			for _, stop := range in.ended {
				stop()
			}
		}()
		test(t, in)
	})
}

// process is one controller that runs.
type process struct {
	name string
	stop func()
	done chan struct{}
	err  error
}

// passGate is a gate that lets everything through.
type passGate struct{}

func (passGate) Check(context.Context, *checkpoint.Output) (gate.Verdict, error) {
	return gate.Verdict{Outcome: gate.Valid, Version: "3.0"}, nil
}

// start runs a controller until it is stopped.
func (in *installation) start(name string) *process {
	in.t.Helper()
	c, err := Assemble(
		Options{Namespace: namespace, Template: tplName, Identity: name, AgentPort: 9444},
		Parts{Config: in.config(name), Agents: in.fleet, Gate: in.gate, Documents: in.documents}, prometheus.NewRegistry())
	in.must(err)
	logger := klog.Logger{}
	if os.Getenv("HOLDFAST_TEST_LOG") != "" {
		logger = funcr.New(func(_, args string) { fmt.Println(time.Now().Format("15:04:05.000"), name, args) }, funcr.Options{Verbosity: 2})
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	p := &process{name: name, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = c.Work(ctx)
	}()
	in.ended = append(in.ended, p.end)
	return p
}

// end stops gracefully and waits.
func (p *process) end() {
	p.stop()
	<-p.done
}

// version is a template whose outputs differ by it; broken ones do not render.
func version(n int) v1alpha1.HAProxyTemplateConfigSpec {
	template := func(format string, args ...any) v1alpha1.Template {
		return v1alpha1.Template{Template: fmt.Sprintf(format, args...)}
	}
	var spec v1alpha1.HAProxyTemplateConfigSpec
	spec.PodSelector.MatchLabels = map[string]string{"app": "proxy"}
	spec.HAProxyConfig = template("global\n  default-path config\n# version %d\n", n)
	spec.Maps = map[string]v1alpha1.Template{"hosts.map": template("host v%d\n", n), "other.map": template("same x\n")}
	spec.Files = map[string]v1alpha1.Template{"503.http": template("HTTP/1.0 503 v%d\n", n), "same.http": template("HTTP/1.0 200\n")}
	spec.SSLCertificates = map[string]v1alpha1.Template{"site.pem": template("certificate\n")}
	spec.Dataplane.ConfigPublishInterval = &metav1.Duration{Duration: throttle}
	return spec
}

func broken() v1alpha1.HAProxyTemplateConfigSpec {
	spec := version(0)
	spec.HAProxyConfig.Template = `{{ fail "broken" }}`
	return spec
}

// set stores the template, the first time as a new object.
func (in *installation) set(spec v1alpha1.HAProxyTemplateConfigSpec) {
	in.t.Helper()
	client := in.haptic.HapticV1alpha1().HAProxyTemplateConfigs(namespace)
	in.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		stored, err := client.Get(in.t.Context(), tplName, metav1.GetOptions{})
		if err != nil {
			stored = &v1alpha1.HAProxyTemplateConfig{ObjectMeta: metav1.ObjectMeta{Name: tplName, Namespace: namespace}, Spec: spec}
			_, err = client.Create(in.t.Context(), stored, metav1.CreateOptions{})
			return err
		}
		stored.Spec = spec
		_, err = client.Update(in.t.Context(), stored, metav1.UpdateOptions{})
		return err
	}))
}

// addPod adds a proxy pod under the bootstrap configuration.
func (in *installation) addPod() *proxyPod {
	in.t.Helper()
	in.pods++
	name, ip := fmt.Sprintf("p%d", in.pods), fmt.Sprintf("10.244.0.%d", in.pods)
	pod, err := in.core.CoreV1().Pods(namespace).Create(in.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app": "proxy"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "haproxy", Image: "haproxy"}}},
	}, metav1.CreateOptions{})
	in.must(err)
	p := newProxyPod(name, string(pod.UID))
	in.fleet.mu.Lock()
	in.fleet.all[ip+":9444"] = p
	in.fleet.mu.Unlock()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip}
	_, err = in.core.CoreV1().Pods(namespace).UpdateStatus(in.t.Context(), pod, metav1.UpdateOptions{})
	in.must(err)
	return p
}

func (in *installation) lease(name string) *coordinationv1.Lease {
	in.t.Helper()
	lease, err := in.core.CoordinationV1().Leases(namespace).Get(in.t.Context(), name, metav1.GetOptions{})
	in.must(err)
	return lease
}

// intent is what the retained-state Lease holds.
func (in *installation) intent() fencing.Intent {
	in.t.Helper()
	stored := record.RetainedLease(in.lease(retainedName)).Intent
	in.must(stored.Err)
	return stored.Intent
}

// newest is the newest committed pointer, after all were verified as an
// independent reader would.
func (in *installation) newest() checkpoint.Pointer {
	in.t.Helper()
	outputs := map[string]*v1alpha1.HAProxyCfg{}
	for _, tree := range in.server.Objects("haproxycfgs") {
		cfg := decode[v1alpha1.HAProxyCfg](in.t, tree)
		outputs[cfg.Name] = cfg
	}
	ordinary := outputs[checkpoint.OrdinaryName(tplName)]
	if ordinary == nil {
		return checkpoint.Pointer{}
	}
	pointers, _ := record.Ordinary(ordinary)
	name, uid := record.TemplateOf(ordinary)
	for _, pointer := range pointers {
		cfg := outputs[pointer.Name]
		if cfg == nil {
			in.t.Errorf("pointer %s names nothing", pointer.Name)
			continue
		}
		template := checkpoint.Template{Namespace: namespace, Name: name, UID: uid}
		verdict, _ := checkpoint.Verify(template, record.Checkpoint(cfg), in.children(), &pointer)
		if verdict.State != checkpoint.Verified || !verdict.Acknowledged {
			in.t.Errorf("pointer %s: %s %s %s", pointer.Name, verdict.State, verdict.Reason, verdict.Message)
		}
	}
	if len(pointers) == 0 {
		return checkpoint.Pointer{}
	}
	return pointers[0]
}

func (in *installation) children() (all []*checkpoint.StoredChild) {
	for _, tree := range in.server.Objects("haproxymapfiles") {
		all = append(all, record.MapFile(decode[v1alpha1.HAProxyMapFile](in.t, tree)))
	}
	for _, tree := range in.server.Objects("haproxygeneralfiles") {
		all = append(all, record.GeneralFile(decode[v1alpha1.HAProxyGeneralFile](in.t, tree)))
	}
	for _, tree := range in.server.Objects("haproxycrtlistfiles") {
		all = append(all, record.CRTListFile(decode[v1alpha1.HAProxyCRTListFile](in.t, tree)))
	}
	for _, tree := range in.server.Objects("secrets") {
		all = append(all, record.Secret(decode[corev1.Secret](in.t, tree)))
	}
	return all
}

func (in *installation) update(lease *coordinationv1.Lease) {
	in.t.Helper()
	_, err := in.core.CoordinationV1().Leases(namespace).Update(in.t.Context(), lease, metav1.UpdateOptions{})
	in.must(err)
}

func decode[T any](t *testing.T, tree map[string]any) *T {
	t.Helper()
	out := new(T)
	raw, err := json.Marshal(tree)
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		t.Fatalf("a stored object does not decode: %v", err)
	}
	return out
}

func (in *installation) must(err error) {
	in.t.Helper()
	if err != nil {
		in.t.Fatal(err)
	}
}
