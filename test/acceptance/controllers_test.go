package acceptance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	gauge         = "haptic_retained_config_active"
	eventActive   = "RetainedConfigActive"
	eventNoUse    = "RetainedConfigUnavailable"
	blockedMetric = "holdfast_controller_render_blocked"
)

// leader is the controller that holds the leader-election Lease.
func (s *stage) leader(ctx context.Context) (*corev1.Pod, error) {
	lease, err := s.core.CoordinationV1().Leases(s.namespace).Get(ctx, templateName+"-leader", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_")
	}
	for _, pod := range s.pods.named(controllerName) {
		if pod.Name == holder {
			return pod, nil
		}
	}
	return nil, fmt.Errorf("the holder is %q, which is no living controller", holder)
}

// awaitLeader waits for a leader other than that of before, if given.
func (s *stage) awaitLeader(before *corev1.Pod) *corev1.Pod {
	s.t.Helper()
	var found *corev1.Pod
	s.await("a controller leads", func(ctx context.Context) error {
		leader, err := s.leader(ctx)
		if err == nil && before != nil && leader.UID == before.UID {
			err = fmt.Errorf("%s still leads", before.Name)
		}
		found = leader
		return err
	})
	return found
}

func (s *stage) standby() *corev1.Pod {
	s.t.Helper()
	leader := s.awaitLeader(nil)
	for _, pod := range s.pods.living(controllerName) {
		if pod.UID != leader.UID {
			return pod
		}
	}
	s.t.Fatal("there is no standby")
	return nil
}

// controller asks a controller's own port.
func (s *stage) controller(ctx context.Context, pod *corev1.Pod, path string) (string, error) {
	return get(ctx, http.DefaultClient, "http://"+net.JoinHostPort(pod.Status.PodIP, "8081")+path)
}

// wantSample wants a line of the controller's metrics.
func (s *stage) wantSample(ctx context.Context, pod *corev1.Pod, line string) error {
	text, err := s.controller(ctx, pod, "/metrics")
	if err != nil {
		return err
	}
	for found := range strings.Lines(text) {
		if strings.TrimSpace(found) == line {
			return nil
		}
	}
	name, _, _ := strings.Cut(line, " ")
	name, _, _ = strings.Cut(name, "{")
	return fmt.Errorf("controller %s shows %q, want %q", pod.Name, samples(text, name), line)
}

// renderError is what /healthz says of rendering, empty while it succeeds.
func (s *stage) renderError(ctx context.Context, pod *corev1.Pod) (string, error) {
	text, err := s.controller(ctx, pod, "/healthz")
	if err != nil {
		return "", err
	}
	var health struct {
		Components map[string]struct{ Error string }
	}
	if err := json.Unmarshal([]byte(text), &health); err != nil {
		return "", err
	}
	return health.Components["reconciliation-coordinator"].Error, nil
}

// restartStandby takes from the standby what it has fetched.
func (s *stage) restartStandby() {
	s.t.Helper()
	s.deletePod(s.standby(), nil)
	s.await("two controllers are ready", func(context.Context) error { return s.pods.allReady(controllerName, 2) })
}

// restartControllers makes all of them cold; between runs while there is none.
func (s *stage) restartControllers(between func()) {
	s.t.Helper()
	s.stopAll(controllerDeployment, controllerName)
	between()
	s.scale(controllerDeployment, 2)
}

// event waits for an event on the template that says all of this, and returns
// its text.
func (s *stage) event(reason string, says ...string) string {
	s.t.Helper()
	var text string
	s.await("event "+reason, func(ctx context.Context) error {
		list, err := s.core.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "reason=" + reason + ",involvedObject.uid=" + string(s.template.UID),
		})
		if err != nil {
			return err
		}
		problem := fmt.Errorf("there is none, want one that says %q", says)
		for _, event := range list.Items {
			missing := ""
			for _, piece := range says {
				if !strings.Contains(event.Message, piece) {
					missing = piece
				}
			}
			if text = event.Message; missing == "" && event.Type == corev1.EventTypeWarning {
				return nil
			}
			problem = fmt.Errorf("%s event %q does not say %q", event.Type, event.Message, missing)
		}
		return problem
	})
	return text
}

// klogHeader begins a line of our logs; the year is not part of it.
var klogHeader = regexp.MustCompile(`^[IWE](\d{4} \d\d:\d\d:\d\d\.\d{6}) `)

// logged waits for a container's first message of this kind and returns its time.
func (s *stage) logged(pod *corev1.Pod, container, message string) time.Time {
	s.t.Helper()
	var when time.Time
	s.await(container+" of "+pod.Name+" logs "+message, func(ctx context.Context) (err error) {
		when, err = s.search(ctx, pod, container, message)
		return err
	})
	return when
}

func (s *stage) search(ctx context.Context, pod *corev1.Pod, container, message string) (time.Time, error) {
	stream, err := s.core.CoreV1().Pods(s.namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container}).Stream(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer stream.Close()
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		header := klogHeader.FindStringSubmatch(lines.Text())
		if header != nil && strings.Contains(lines.Text(), message) {
			return time.ParseInLocation("2006 0102 15:04:05.000000", fmt.Sprintf("%d %s", time.Now().Year(), header[1]), time.Local)
		}
	}
	return time.Time{}, errors.Join(lines.Err(), errors.New("it did not yet"))
}

// explain shows what is known of a stage that failed.
func (s *stage) explain(ctx context.Context) {
	events, err := s.core.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=Warning,involvedObject.kind=HAProxyTemplateConfig"})
	if err == nil {
		for _, event := range events.Items {
			s.t.Logf("event %s on %s: %s", event.Reason, event.InvolvedObject.Name, event.Message)
		}
	}
	tail := int64(40)
	for _, pod := range append(s.pods.named(controllerName), s.pods.named(proxyName)...) {
		for _, container := range pod.Spec.Containers {
			text, err := s.core.CoreV1().Pods(s.namespace).
				GetLogs(pod.Name, &corev1.PodLogOptions{Container: container.Name, TailLines: &tail}).DoRaw(ctx)
			s.t.Logf("log of %s/%s (ready %t, error %v):\n%s", pod.Name, container.Name, isReady(pod), err, text)
		}
	}
}
