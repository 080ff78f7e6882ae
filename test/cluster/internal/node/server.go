package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"github.com/virtual-kubelet/virtual-kubelet/node/nodeutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	utilexec "k8s.io/utils/exec"

	"github.com/holdfast-project/holdfast/test/cluster/internal/containerlog"
	"github.com/holdfast-project/holdfast/test/cluster/internal/netns"
	"github.com/holdfast-project/holdfast/test/cluster/internal/pki"
	"github.com/holdfast-project/holdfast/test/cluster/internal/process"
)

const (
	streamIdleTime    = 4 * time.Hour
	streamStartTime   = 30 * time.Second
	headerTime        = 10 * time.Second
	serverStopTime    = time.Second
	portForwardDialed = 5 * time.Second
)

// serveKubelet serves the kubelet's port. Who may use it is asked of
// kube-apiserver, as a kubelet does.
func serveKubelet(ctx context.Context, client kubernetes.Interface, files pki.Files, pods *pods) error {
	authority, err := dynamiccertificates.NewDynamicCAContentFromFile("cluster-ca", files.ClusterCA)
	if err != nil {
		return fmt.Errorf("reading cluster authority: %w", err)
	}
	auth, err := nodeutil.WebhookAuth(client, nodeName, func(config *nodeutil.WebhookAuthConfig) error {
		config.AuthnConfig.ClientCertificateCAContentProvider = authority
		return nil
	})
	if err != nil {
		return fmt.Errorf("preparing authentication: %w", err)
	}
	certificate, err := tls.LoadX509KeyPair(files.Kubelet.CertFile, files.Kubelet.KeyFile)
	if err != nil {
		return fmt.Errorf("reading kubelet certificate: %w", err)
	}
	routes := http.NewServeMux()
	api.AttachPodRoutes(api.PodHandlerConfig{
		RunInContainer:        pods.runInContainer,
		GetContainerLogs:      pods.containerLogs,
		PortForward:           pods.portForward,
		GetPods:               pods.list,
		GetPodsFromKubernetes: pods.list,
		StreamIdleTimeout:     streamIdleTime,
		StreamCreationTimeout: streamStartTime,
	}, routes, true)
	server := &http.Server{
		Handler:           nodeutil.WithAuth(auth, routes),
		ReadHeaderTimeout: headerTime,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12},
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(netns.NodeIP, strconv.Itoa(kubeletPort)))
	if err != nil {
		return fmt.Errorf("listening for kubelet requests: %w", err)
	}
	stop := context.AfterFunc(ctx, func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), serverStopTime)
		defer cancel()
		_ = server.Shutdown(limit)
		_ = server.Close()
	})
	defer stop()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving kubelet requests: %w", err)
	}
	return nil
}

func (ps *pods) list(context.Context) ([]*corev1.Pod, error) {
	var objects []*corev1.Pod
	for _, p := range ps.all() {
		objects = append(objects, p.object())
	}
	return objects, nil
}

func (ps *pods) container(namespace, name, container string) (*pod, *container, error) {
	p := ps.find(namespace, name)
	if p == nil {
		return nil, nil, errdefs.NotFoundf("no pod %s/%s on this node", namespace, name)
	}
	for _, c := range p.containers {
		if c.spec.Name == container {
			return p, c, nil
		}
	}
	return nil, nil, errdefs.NotFoundf("pod %s/%s has no container %s", namespace, name, container)
}

func (ps *pods) containerLogs(ctx context.Context, namespace, name, containerName string, options api.ContainerLogOpts) (io.ReadCloser, error) {
	p, c, err := ps.container(namespace, name, containerName)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	log := c.log
	if options.Previous {
		log = c.previous
	}
	p.mu.Unlock()
	if log == nil {
		return nil, errdefs.NotFoundf("container %s of pod %s/%s has no such log yet", containerName, namespace, name)
	}
	wanted := containerlog.Options{Tail: -1, LimitBytes: options.LimitBytes, Timestamps: options.Timestamps, Follow: options.Follow, Since: options.SinceTime}
	// The library cannot tell "no limit" from "no lines"; kubectl never asks
	// for none.
	if options.Tail > 0 {
		wanted.Tail = options.Tail
	}
	if options.SinceSeconds > 0 {
		wanted.Since = time.Now().Add(-time.Duration(options.SinceSeconds) * time.Second)
	}
	return log.Read(ctx, wanted), nil
}

func (ps *pods) runInContainer(ctx context.Context, namespace, name, containerName string, command []string, attach api.AttachIO) error {
	p, c, err := ps.container(namespace, name, containerName)
	if err != nil {
		return err
	}
	p.mu.Lock()
	running := c.process
	p.mu.Unlock()
	if running == nil {
		return errdefs.NotFoundf("container %s of pod %s/%s is not running", containerName, namespace, name)
	}
	code, err := runAttached(ctx, running, command, attach)
	if err != nil {
		return err
	}
	if code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("command ended with exit code %d", code), Code: code}
	}
	return nil
}

func runAttached(ctx context.Context, running *process.Process, command []string, attach api.AttachIO) (int, error) {
	if attach.TTY() {
		return runTerminal(ctx, running, command, attach)
	}
	streams := process.Streams{}
	if out := attach.Stdout(); out != nil {
		streams.Out = out
	}
	if errs := attach.Stderr(); errs != nil {
		streams.Err = errs
	}
	in := attach.Stdin()
	if in == nil {
		return running.Exec(ctx, command, streams)
	}
	// Through a pipe of our own: the command's end must not wait for a client
	// that keeps its input open.
	read, write, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("creating pipe: %w", err)
	}
	defer read.Close()
	go func() {
		defer write.Close()
		_, _ = io.Copy(write, in)
	}()
	streams.In = read
	return running.Exec(ctx, command, streams)
}

func (ps *pods) portForward(ctx context.Context, namespace, name string, port int32, stream io.ReadWriteCloser) error {
	p := ps.find(namespace, name)
	if p == nil {
		return errdefs.NotFoundf("no pod %s/%s on this node", namespace, name)
	}
	dialer := net.Dialer{Timeout: portForwardDialed}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(p.object().Status.PodIP, strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer stream.Close()
	ended := make(chan error, 2)
	go func() { _, err := io.Copy(conn, stream); ended <- err }()
	go func() { _, err := io.Copy(stream, conn); ended <- err }()
	return <-ended
}
