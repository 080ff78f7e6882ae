package node

import (
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/kubelet/configmap"
	"k8s.io/kubernetes/pkg/kubelet/secret"
	"k8s.io/kubernetes/pkg/kubelet/token"
)

// idleTime is after how long without a reader a watch is given up; volumes are
// refreshed more often than that.
const idleTime = time.Minute

// sources answers ConfigMaps, Secrets and tokens the way a kubelet may: one
// watch for each object that a pod of this node names.
type sources struct {
	configMaps configmap.Manager
	secrets    secret.Manager
	tokens     *token.Manager
}

func newSources(client kubernetes.Interface) *sources {
	return &sources{
		configMaps: configmap.NewWatchingConfigMapManager(client, idleTime),
		secrets:    secret.NewWatchingSecretManager(client, idleTime),
		tokens:     token.NewManager(client),
	}
}

func (s *sources) register(pod *corev1.Pod) {
	s.configMaps.RegisterPod(pod)
	s.secrets.RegisterPod(pod)
}

func (s *sources) unregister(pod *corev1.Pod) {
	s.configMaps.UnregisterPod(pod)
	s.secrets.UnregisterPod(pod)
	s.tokens.DeleteServiceAccountToken(pod.UID)
}

// GetConfigMap answers a ConfigMap that a registered pod names.
func (s *sources) GetConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	return s.configMaps.GetConfigMap(namespace, name)
}

// GetSecret answers a Secret that a registered pod names.
func (s *sources) GetSecret(namespace, name string) (*corev1.Secret, error) {
	return s.secrets.GetSecret(namespace, name)
}

// GetToken answers a token, from memory while it is fresh enough.
func (s *sources) GetToken(namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	return s.tokens.GetServiceAccountToken(namespace, account, request)
}
