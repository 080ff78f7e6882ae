package supervisor

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	readyTime     = 3 * time.Minute
	readyInterval = 100 * time.Millisecond
)

// check is one thing a usable cluster has.
type check struct {
	name string
	test func(context.Context, kubernetes.Interface) error
}

// waitReady goes through everything a first kubectl apply needs, the last being
// that a pod passes admission.
func waitReady(ctx context.Context, kubeconfig string, reporter *reporter) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	config.Timeout = 10 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	checks := []check{
		{"kube-apiserver to be ready", apiReady},
		{"node " + NodeName + " to be Ready", nodeReady},
		{"the default service account", serviceAccount},
		{"the aggregation layer's ConfigMap", authenticationConfig},
		{"a pod to pass admission", podAdmitted},
	}
	for _, c := range checks {
		reporter.step("waiting for " + c.name)
		if err := until(ctx, client, c); err != nil {
			return err
		}
	}
	return nil
}

func until(ctx context.Context, client kubernetes.Interface, c check) error {
	ticks := time.NewTicker(readyInterval)
	defer ticks.Stop()
	for {
		err := c.test(ctx, client)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last answer: %w)", c.name, ctx.Err(), err)
		case <-ticks.C:
		}
	}
}

func apiReady(ctx context.Context, client kubernetes.Interface) error {
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

func nodeReady(ctx context.Context, client kubernetes.Interface) error {
	node, err := client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not Ready", NodeName)
}

func serviceAccount(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
	return err
}

func authenticationConfig(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().ConfigMaps("kube-system").Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
	return err
}

func podAdmitted(ctx context.Context, client kubernetes.Interface) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "admission-check"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "check", Image: "none"}}},
	}
	_, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}
