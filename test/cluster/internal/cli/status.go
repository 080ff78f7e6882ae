package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-project/holdfast/test/cluster/internal/state"
)

const statusTime = 3 * time.Second

func newStatus(dir func() (state.Dir, error)) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Say whether the cluster runs, where, and how it is",
		Long:    "Say whether the cluster runs, where, and how it is. Exit code 0 when it runs and answers.",
		Example: "  devcluster status",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, _, err := running(dir)
			if err != nil {
				return err
			}
			return printStatus(cmd.Context(), d)
		},
	}
}

func printStatus(ctx context.Context, dir state.Dir) error {
	info, err := dir.Read()
	if err != nil {
		return err
	}
	fmt.Printf("State       %s\n", dir)
	fmt.Printf("Supervisor  process %d, up since %s\n", info.PID, info.StartedAt.Local().Format(time.DateTime))
	fmt.Printf("API server  https://127.0.0.1:%d\n", info.Port)
	fmt.Printf("Kubeconfig  %s\n", dir.Kubeconfig())
	fmt.Printf("Binaries    %s\n", info.BinDir)
	fmt.Printf("Logs        %s\n", dir.Path("logs"))
	summary, err := summarize(ctx, dir)
	if err != nil {
		return fmt.Errorf("the cluster's processes live, but the API does not answer: %w", err)
	}
	fmt.Printf("Cluster     %s\n\n", summary)
	fmt.Println("Use it with:  eval \"$(devcluster env" + stateFlag(dir) + ")\"")
	return nil
}

func stateFlag(dir state.Dir) string {
	if dir == state.Default() {
		return ""
	}
	return " --state " + string(dir)
}

func summarize(ctx context.Context, dir state.Dir) (string, error) {
	config, err := clientcmd.BuildConfigFromFlags("", dir.Kubeconfig())
	if err != nil {
		return "", fmt.Errorf("reading kubeconfig: %w", err)
	}
	config.Timeout = statusTime
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("making client: %w", err)
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return "", err
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	runningPods := 0
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == corev1.PodRunning {
			runningPods++
		}
	}
	return fmt.Sprintf("%s, %d pods, %d of them running", version.GitVersion, len(pods.Items), runningPods), nil
}
