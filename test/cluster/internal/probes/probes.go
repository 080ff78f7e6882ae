package probes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/probe"
	"k8s.io/kubernetes/pkg/probe/grpc"
	probehttp "k8s.io/kubernetes/pkg/probe/http"
	"k8s.io/kubernetes/pkg/probe/tcp"
)

const maxOutputBytes = 10 << 10

// Target is the container that is asked.
type Target struct {
	PodIP     string
	Container *corev1.Container
	// Exec runs a command in the container and answers exit code and output.
	Exec func(ctx context.Context, command []string, output *bytes.Buffer) (int, error)
}

// Prober asks. It is safe for concurrent use.
type Prober struct {
	http probehttp.Prober
	tcp  tcp.Prober
	grpc grpc.Prober
}

// NewProber makes a prober. Redirects to other hosts are not followed, as the
// kubelet's readiness and liveness probes do not.
func NewProber() *Prober {
	return &Prober{http: probehttp.New(false), tcp: tcp.New(), grpc: grpc.New()}
}

// Ask asks once and answers nil when the container is well.
func (p *Prober) Ask(ctx context.Context, spec *corev1.Probe, target Target) error {
	timeout := time.Duration(max(1, spec.TimeoutSeconds)) * time.Second
	switch {
	case spec.Exec != nil:
		return askExec(ctx, spec.Exec.Command, target, timeout)
	case spec.HTTPGet != nil:
		request, err := probehttp.NewRequestForHTTPGetAction(spec.HTTPGet, target.Container, target.PodIP, "probe")
		if err != nil {
			return fmt.Errorf("making request: %w", err)
		}
		result, output, err := p.http.Probe(request.WithContext(ctx), timeout)
		return verdict(result, output, err)
	case spec.TCPSocket != nil:
		port, err := probe.ResolveContainerPort(spec.TCPSocket.Port, target.Container)
		if err != nil {
			return fmt.Errorf("finding port: %w", err)
		}
		host := spec.TCPSocket.Host
		if host == "" {
			host = target.PodIP
		}
		result, output, err := p.tcp.Probe(host, port, timeout)
		return verdict(result, output, err)
	case spec.GRPC != nil:
		service := ""
		if spec.GRPC.Service != nil {
			service = *spec.GRPC.Service
		}
		result, output, err := p.grpc.Probe(target.PodIP, service, int(spec.GRPC.Port), timeout, grpc.ProbeOptions{})
		return verdict(result, output, err)
	}
	return errors.New("the probe names no handler")
}

func askExec(ctx context.Context, command []string, target Target, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var output bytes.Buffer
	code, err := target.Exec(ctx, command, &output)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("command timed out after %s", timeout)
	}
	if err != nil {
		return err
	}
	if code != 0 {
		output.Truncate(min(output.Len(), maxOutputBytes))
		return fmt.Errorf("exit code %d: %s", code, output.String())
	}
	return nil
}

func verdict(result probe.Result, output string, err error) error {
	if err != nil {
		return err
	}
	if result == probe.Success || result == probe.Warning {
		return nil
	}
	if output == "" {
		output = http.StatusText(http.StatusServiceUnavailable)
	}
	return errors.New(output)
}
