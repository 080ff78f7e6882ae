package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const readOnlyPod = `
apiVersion: v1
kind: Pod
metadata:
  name: readonly
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  containers:
  - name: c
    image: none
    command: [sh, -c, 'touch /tmp/works && if touch /var/tmp/refused 2>/dev/null; then exit 3; fi']
    securityContext:
      readOnlyRootFilesystem: true
    volumeMounts:
    - {name: tmp, mountPath: /tmp}
  volumes:
  - name: tmp
    emptyDir: {medium: Memory}
`

// readOnlyRoot mounts a volume over a folder that other mounts of the machine
// lie in, as tests keep theirs below /tmp.
func readOnlyRoot(t *testing.T, c *cluster) {
	c.apply(readOnlyPod)
	var problem error
	c.eventually(t, "the end of a pod with a read-only root", func() bool {
		pod, err := c.client.CoreV1().Pods("default").Get(t.Context(), "readonly", metav1.GetOptions{})
		if err != nil {
			return false
		}
		switch pod.Status.Phase {
		case corev1.PodSucceeded:
			return true
		case corev1.PodFailed:
			problem = fmt.Errorf("it ended with %+v", pod.Status.ContainerStatuses[0].State)
			return true
		}
		for _, s := range pod.Status.ContainerStatuses {
			if s.State.Waiting != nil && strings.HasSuffix(s.State.Waiting.Reason, "Error") {
				problem = errors.New(s.State.Waiting.Message)
				return true
			}
		}
		return false
	})
	if problem != nil {
		t.Errorf("a container with a read-only root and a volume at /tmp: %v", problem)
	}
}
