package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

const (
	controllerLabel     = "app.kubernetes.io/name=holdfast-controller"
	controllerContainer = "controller"
	gateName            = "holdfast-gate"
	// gateVolume and gatePath are where the checkpoint is laid out for the time of
	// the check, keys included. It is memory.
	gateVolume, gatePath = "tmp", "/tmp"

	gatePoll = 500 * time.Millisecond
	// gateDeadline bounds the Job, the fetching of its image included.
	gateDeadline = 2 * time.Minute
	// gateKept is how long a Job stays that nobody deletes any more.
	gateKept       = time.Minute
	gateCleanUp    = 10 * time.Second
	maxGateLogSize = 64 << 10
)

// GateJob has HAProxy check a checkpoint where the controllers run: in a Job with
// the image, the service account and the place of a controller pod. The Job reads
// the stored objects itself, so that no key goes through whoever asks.
type GateJob struct {
	Client    kubernetes.Interface
	Namespace string
}

// Check runs the Job and deletes it. It fails when there is no controller pod to
// take the image from, when the Job does not end in time, or when it gives no
// verdict; the error then holds the end of its log.
func (g GateJob) Check(ctx context.Context, name string, _ *checkpoint.Output) (verdict GateVerdict, err error) {
	model, err := g.controller(ctx)
	if err != nil {
		return GateVerdict{}, err
	}
	jobs := g.Client.BatchV1().Jobs(g.Namespace)
	job, err := jobs.Create(ctx, g.job(name, model), metav1.CreateOptions{})
	if err != nil {
		return GateVerdict{}, fmt.Errorf("creating the job: %w", err)
	}
	defer func() {
		// Also after an interrupt; what is left then ends by itself.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gateCleanUp)
		defer cancel()
		background := metav1.DeletePropagationBackground
		if gone := jobs.Delete(ctx, job.Name, metav1.DeleteOptions{PropagationPolicy: &background}); gone != nil {
			err = errors.Join(err, fmt.Errorf("deleting job %s: %w", job.Name, gone))
		}
	}()
	log, err := g.await(ctx, job)
	if err != nil {
		return GateVerdict{}, fmt.Errorf("job %s: %w", job.Name, err)
	}
	return readGateVerdict(job.Name, log)
}

// controller is a running pod of a controller in the namespace.
func (g GateJob) controller(ctx context.Context) (*corev1.Pod, error) {
	pods, err := g.Client.CoreV1().Pods(g.Namespace).List(ctx, metav1.ListOptions{LabelSelector: controllerLabel})
	if err != nil {
		return nil, fmt.Errorf("listing controllers: %w", err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Status.Phase == corev1.PodRunning && containerOf(pod) != nil {
			return pod, nil
		}
	}
	return nil, fmt.Errorf("namespace %s has no running pod with label %s and container %s to take the image from", g.Namespace, controllerLabel, controllerContainer)
}

func containerOf(pod *corev1.Pod) *corev1.Container {
	at := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == controllerContainer })
	if at < 0 {
		return nil
	}
	return &pod.Spec.Containers[at]
}

// job is one that nothing but its deadline ends early, and that is tried once.
func (g GateJob) job(checkpointName string, model *corev1.Pod) *batchv1.Job {
	like := containerOf(model)
	once, deadline, kept := int32(0), int64(gateDeadline.Seconds()), int32(gateKept.Seconds())
	memory := corev1.Volume{Name: gateVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}
	labels := map[string]string{"app.kubernetes.io/name": gateName}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{GenerateName: gateName + "-", Labels: labels},
		Spec: batchv1.JobSpec{
			BackoffLimit: &once, ActiveDeadlineSeconds: &deadline, TTLSecondsAfterFinished: &kept,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: model.Spec.ServiceAccountName,
					SecurityContext: model.Spec.SecurityContext, ImagePullSecrets: model.Spec.ImagePullSecrets,
					NodeSelector: model.Spec.NodeSelector, Tolerations: model.Spec.Tolerations,
					Volumes: []corev1.Volume{memory},
					Containers: []corev1.Container{{
						Name: "gate", Image: like.Image, ImagePullPolicy: like.ImagePullPolicy,
						Command:   []string{"holdfast-controller", "gate", checkpointName, "--namespace=" + g.Namespace},
						Resources: like.Resources, SecurityContext: like.SecurityContext,
						VolumeMounts: []corev1.VolumeMount{{Name: gateVolume, MountPath: gatePath}},
					}},
				},
			},
		},
	}
}

// await returns the log of the Job's pod once that has ended.
func (g GateJob) await(ctx context.Context, job *batchv1.Job) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, gateDeadline)
	defer cancel()
	pods := g.Client.CoreV1().Pods(g.Namespace)
	seen := "no pod of it was seen"
	var ended string
	err := wait.PollUntilContextCancel(ctx, gatePoll, false, func(ctx context.Context) (bool, error) {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job.Name})
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			pod := &list.Items[i]
			seen = fmt.Sprintf("pod %s is %s", pod.Name, pod.Status.Phase)
			if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
				ended = pod.Name
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return "", fmt.Errorf("it did not end, %s: %w", seen, err)
	}
	limit := int64(maxGateLogSize)
	log, err := pods.GetLogs(ended, &corev1.PodLogOptions{LimitBytes: &limit}).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the log of pod %s: %w", ended, err)
	}
	return string(log), nil
}

// readGateVerdict finds the line that holds the verdict.
func readGateVerdict(job, log string) (GateVerdict, error) {
	last := "it said nothing"
	for line := range strings.Lines(log) {
		var verdict *GateVerdict
		if json.Unmarshal([]byte(line), &verdict) == nil && verdict != nil {
			return *verdict, nil
		}
		if line = strings.TrimSpace(line); line != "" {
			last = line
		}
	}
	return GateVerdict{}, fmt.Errorf("job %s gave no verdict: %s", job, last)
}
