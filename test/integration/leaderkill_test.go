package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-project/holdfast/generated/clientset/versioned"
	"github.com/holdfast-project/holdfast/pkg/agent/api"
	stored "github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/pkg/record"
	"github.com/holdfast-project/holdfast/test/agenttest"
)

const (
	// killed is the namespace and the template whose leaders are killed.
	killed = "leaderkill"
	// killRounds are the leaders that are killed, each at a later write of its own.
	killRounds = 40
	// killLimit bounds the whole test.
	killLimit = 4 * time.Minute
	// changePause is the time between two changes of what is rendered.
	changePause = 900 * time.Millisecond
)

// TestPointersStayCompleteWhateverWriteTheLeaderDiesAt kills leaders with
// SIGKILL, the nth one at its nth write, half of them before and half after the
// API server has it, while outputs keep changing. No pointer may name anything
// but a complete checkpoint for as long as it is in the list.
func TestPointersStayCompleteWhateverWriteTheLeaderDiesAt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), killLimit)
	defer cancel()
	k := newKilling(t)
	k.install(ctx)
	reading := k.read(ctx)
	herd := k.herd(ctx)
	changing, stopChanging := context.WithCancel(ctx)
	changed := k.change(changing)

	eventually(t, "there is a first checkpoint", k.retained)
	rounds, err := herd.rounds()
	stopChanging()
	changes := <-changed
	if err != nil {
		t.Errorf("killing leaders: %v\n%s", err, herd.log())
	}
	eventually(t, "the newest checkpoint is the intent's", k.settled)
	seen := reading.stop()
	if err := herd.stop(); err != nil {
		t.Errorf("stopping the controllers: %v\n%s", err, herd.log())
	}
	for _, problem := range seen.problems {
		t.Error(problem)
	}
	fmt.Printf("leaderkill rounds %d writes %d changes %d checkpoints %d revisions %d verifications %d problems %d\n",
		rounds.kills, rounds.writes, changes, len(seen.checkpoints), seen.revisions, seen.verifications, len(seen.problems))
	if rounds.kills < killRounds || seen.verifications < 10*killRounds {
		t.Errorf("%d leaders were killed and %d pointers verified, too few to say anything", rounds.kills, seen.verifications)
	}
}

// killing is one run of the test.
type killing struct {
	t        *testing.T
	dir      string
	haptic   versioned.Interface
	core     kubernetes.Interface
	anything dynamic.Interface
	template checkpoint.Template
}

func newKilling(t *testing.T) *killing {
	t.Helper()
	config := realConfig(t)
	haptic, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	anything, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &killing{t: t, dir: t.TempDir(), haptic: haptic, core: core, anything: anything}
}

// install makes a namespace with the manifests' proxies, certificates as the
// demo makes them, what is rendered, and the template.
func (k *killing) install(ctx context.Context) {
	t := k.t
	t.Helper()
	kube(t, "create", "namespace", killed)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := tryKube(ctx, "delete", "namespace", killed, "--wait=true"); err != nil {
			t.Error(err)
		}
	})
	authority := agenttest.NewAuthority(t)
	authority.Issue(t, filepath.Join(k.dir, "controller"), api.ControllerName)
	authority.Issue(t, filepath.Join(k.dir, "agent"), api.AgentName)
	kube(t, "-n", killed, "create", "secret", "generic", "holdfast-agent-identity", "--from-file="+filepath.Join(k.dir, "agent"))
	kube(t, "-n", killed, "create", "configmap", "site", "--from-literal=n=0")

	// Outputs change faster than reloads are paced.
	manifest := strings.Replace(kube(t, "kustomize", "../../manifests/base/proxy"),
		"- --tls-dir=/etc/holdfast/tls", "- --tls-dir=/etc/holdfast/tls\n        - --min-reload-interval=100ms", 1)
	path := filepath.Join(k.dir, "proxy.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	kube(t, "-n", killed, "apply", "-f", path)
	template, err := k.haptic.HapticV1alpha1().HAProxyTemplateConfigs(killed).Create(ctx, killedTemplate(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k.template = checkpoint.Template{Namespace: killed, Name: killed, UID: string(template.UID)}
}

// killedTemplate has files of three kinds that come back after two, three and
// five changes, so that what was collected is needed again.
func killedTemplate() *stored.HAProxyTemplateConfig {
	text := func(text string) stored.Template {
		return stored.Template{Template: `{{ $n := (resource "site" "` + killed + `" "site").data.n | atoi -}}` + "\n" + text}
	}
	seconds := func(n float64) *metav1.Duration {
		return &metav1.Duration{Duration: time.Duration(n * float64(time.Second))}
	}
	template := &stored.HAProxyTemplateConfig{ObjectMeta: metav1.ObjectMeta{Namespace: killed, Name: killed}}
	spec := &template.Spec
	spec.PodSelector.MatchLabels = map[string]string{"app.kubernetes.io/name": "holdfast-proxy"}
	spec.WatchedResources = map[string]stored.WatchedResource{"site": {APIVersion: "v1", Resources: "configmaps", FieldSelector: "metadata.name=site"}}
	spec.Maps = map[string]stored.Template{"hosts.map": text("host-{{ mod $n 5 }} x\n"), "other.map": text("host-{{ mod $n 3 }} y\n")}
	spec.Files = map[string]stored.Template{"503.http": text("HTTP/1.1 503 Service Unavailable\r\n\r\n{{ mod $n 2 }}\n")}
	spec.SSLCertificates = map[string]stored.Template{"site.pem": text("in place of a certificate: {{ mod $n 3 }}\n")}
	spec.HAProxyConfig = text(`global
    default-path config
    hard-stop-after 1s
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend status
    bind "${POD_IP}:8404"
    http-request return status 200 content-type text/plain string "{{ mod $n 7 }}"
`)
	election := &spec.Controller.LeaderElection
	// As short as a machine with two cores keeps up with.
	election.LeaseDuration, election.RenewDeadline, election.RetryPeriod = seconds(2), seconds(1.5), seconds(0.3)
	spec.Dataplane.MinDeploymentInterval, spec.Dataplane.ConfigPublishInterval = seconds(0.2), seconds(0.3)
	return template
}

// change keeps changing what is rendered, and tells in the end how often.
func (k *killing) change(ctx context.Context) <-chan int {
	done := make(chan int, 1)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n+1)
			_, err := k.core.CoreV1().ConfigMaps(killed).Patch(ctx, "site", types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil && ctx.Err() == nil {
				k.t.Errorf("changing what is rendered: %v", err)
				break
			}
			select {
			case <-ctx.Done():
			case <-time.After(changePause):
			}
		}
		done <- n
	}()
	return done
}

// settled wants the newest checkpoint to be what the fleet was told to run.
func (k *killing) settled(ctx context.Context) error {
	lease, err := k.core.CoordinationV1().Leases(killed).Get(ctx, checkpoint.RetainedStateLeaseName(killed), metav1.GetOptions{})
	if err != nil {
		return err
	}
	newest, err := k.newest(ctx)
	if err != nil {
		return err
	}
	if intent := record.RetainedLease(lease).Intent.Intent; newest.Checksum != intent.Checksum {
		return fmt.Errorf("the intent is %s, the newest checkpoint %s", intent.Checksum, newest.Checksum)
	}
	return nil
}

func (k *killing) retained(ctx context.Context) error {
	_, err := k.newest(ctx)
	return err
}

func (k *killing) newest(ctx context.Context) (checkpoint.Pointer, error) {
	ordinary, err := k.haptic.HapticV1alpha1().HAProxyCfgs(killed).Get(ctx, checkpoint.OrdinaryName(killed), metav1.GetOptions{})
	if err != nil {
		return checkpoint.Pointer{}, err
	}
	pointers, _ := record.Ordinary(ordinary)
	if len(pointers) == 0 {
		return checkpoint.Pointer{}, errors.New("there is no checkpoint")
	}
	return pointers[0], nil
}
