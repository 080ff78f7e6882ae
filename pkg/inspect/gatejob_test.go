package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheVerdictIsFoundInTheLog(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, log string
		want      GateVerdict
		err       string
	}{
		{name: "behind lines of others", log: "I1130 started\n{\"valid\":true,\"refused\":false,\"version\":\"3.0.11\"}\n", want: GateVerdict{Valid: true, Version: "3.0.11"}},
		{name: "a refusal", log: `{"valid":false,"refused":true,"message":"line 3"}`, want: GateVerdict{Refused: true, Message: "line 3"}},
		{name: "an error instead", log: "usage\nError: no such checkpoint\n\n", err: "job j gave no verdict: Error: no such checkpoint"},
		{name: "null is no verdict", log: "null\n", err: "job j gave no verdict: null"},
		{name: "nothing at all", err: "job j gave no verdict: it said nothing"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := readGateVerdict("j", tc.log)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			if said := messageOf(err); said != tc.err {
				t.Errorf("error %q, want %q", said, tc.err)
			}
		})
	}
}

func messageOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestTheGatesJobIsBounded: it may do what a controller may and no more, keeps
// keys in memory, carries no label by which anything would find it as a
// controller, and ends by itself.
func TestTheGatesJobIsBounded(t *testing.T) {
	t.Parallel()
	readOnly := true
	model := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/name": "holdfast-controller"}}}
	model.Spec.ServiceAccountName = "holdfast-controller"
	model.Spec.Containers = []corev1.Container{{Name: "sidecar", Image: "other"}, {Name: "controller", Image: "img:1",
		SecurityContext: &corev1.SecurityContext{ReadOnlyRootFilesystem: &readOnly}, Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
		VolumeMounts: []corev1.VolumeMount{{Name: "agent-tls"}}}}
	job := GateJob{Namespace: "edge"}.job("cp", model)
	pod := job.Spec.Template
	want := corev1.Container{
		Name: "gate", Image: "img:1", Command: []string{"holdfast-controller", "gate", "cp", "--namespace=edge"},
		SecurityContext: &corev1.SecurityContext{ReadOnlyRootFilesystem: &readOnly},
		VolumeMounts:    []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
	}
	if diff := cmp.Diff([]corev1.Container{want}, pod.Spec.Containers); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	if v := pod.Spec.Volumes; len(v) != 1 || v[0].EmptyDir == nil || v[0].EmptyDir.Medium != corev1.StorageMediumMemory {
		t.Errorf("volumes %+v, want one in memory", v)
	}
	if diff := cmp.Diff(map[string]string{"app.kubernetes.io/name": "holdfast-gate"}, pod.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if job.Spec.ActiveDeadlineSeconds == nil || job.Spec.TTLSecondsAfterFinished == nil || *job.Spec.BackoffLimit != 0 || pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("job %+v may run on, come again or stay", job.Spec)
	}
}
