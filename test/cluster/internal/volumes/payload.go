package volumes

import (
	"errors"
	"fmt"
	"maps"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/secret"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"

	"github.com/holdfast-project/holdfast/test/cluster/internal/environment"
)

// Sources answers what volumes are filled from.
type Sources interface {
	environment.Sources
	GetToken(namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
}

// payload is the files of one volume.
type payload = map[string]volumeutil.FileProjection

const fallbackMode int32 = 0o644

// collect answers the files of a volume that comes from the API, and false for
// any other kind.
func collect(pod *corev1.Pod, volume *corev1.Volume, sources Sources) (payload, bool, error) {
	switch {
	case volume.ConfigMap != nil:
		v := volume.ConfigMap
		files, err := fromConfigMap(pod, sources, v.Name, v.Items, mode(v.DefaultMode), isSet(v.Optional))
		return files, true, err
	case volume.Secret != nil:
		v := volume.Secret
		files, err := fromSecret(pod, sources, v.SecretName, v.Items, mode(v.DefaultMode), isSet(v.Optional))
		return files, true, err
	case volume.DownwardAPI != nil:
		files, err := fromPod(pod, volume.DownwardAPI.Items, mode(volume.DownwardAPI.DefaultMode))
		return files, true, err
	case volume.Projected != nil:
		files, err := fromProjection(pod, sources, volume.Projected)
		return files, true, err
	}
	return nil, false, nil
}

func fromProjection(pod *corev1.Pod, sources Sources, projected *corev1.ProjectedVolumeSource) (payload, error) {
	all := payload{}
	for _, source := range projected.Sources {
		files, err := fromSource(pod, sources, source, mode(projected.DefaultMode))
		if err != nil {
			return nil, err
		}
		maps.Copy(all, files)
	}
	return all, nil
}

func fromSource(pod *corev1.Pod, sources Sources, source corev1.VolumeProjection, mode *int32) (payload, error) {
	switch {
	case source.ConfigMap != nil:
		return fromConfigMap(pod, sources, source.ConfigMap.Name, source.ConfigMap.Items, mode, isSet(source.ConfigMap.Optional))
	case source.Secret != nil:
		return fromSecret(pod, sources, source.Secret.Name, source.Secret.Items, mode, isSet(source.Secret.Optional))
	case source.DownwardAPI != nil:
		return fromPod(pod, source.DownwardAPI.Items, mode)
	case source.ServiceAccountToken != nil:
		return fromToken(pod, sources, source.ServiceAccountToken, mode)
	}
	return nil, errors.New("this kind of projection is not supported")
}

func fromConfigMap(pod *corev1.Pod, sources Sources, name string, items []corev1.KeyToPath, mode *int32, optional bool) (payload, error) {
	object, err := sources.GetConfigMap(pod.Namespace, name)
	if apierrors.IsNotFound(err) && optional {
		return payload{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("configmap %q: %w", name, err)
	}
	return configmap.MakePayload(items, object, mode, nil, optional)
}

func fromSecret(pod *corev1.Pod, sources Sources, name string, items []corev1.KeyToPath, mode *int32, optional bool) (payload, error) {
	object, err := sources.GetSecret(pod.Namespace, name)
	if apierrors.IsNotFound(err) && optional {
		return payload{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("secret %q: %w", name, err)
	}
	return secret.MakePayload(items, object, mode, nil, optional)
}

func fromPod(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, defaultMode *int32) (payload, error) {
	files := payload{}
	for _, item := range items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = environment.Field(pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = environment.Resource(pod, "", item.ResourceFieldRef)
		}
		if err != nil {
			return nil, fmt.Errorf("downward API file %s: %w", item.Path, err)
		}
		file := volumeutil.FileProjection{Data: []byte(value), Mode: *defaultMode}
		if item.Mode != nil {
			file.Mode = *item.Mode
		}
		files[item.Path] = file
	}
	return files, nil
}

// fromToken asks for a token bound to the pod: it ends with it.
func fromToken(pod *corev1.Pod, sources Sources, source *corev1.ServiceAccountTokenProjection, mode *int32) (payload, error) {
	var audiences []string
	if source.Audience != "" {
		audiences = []string{source.Audience}
	}
	answer, err := sources.GetToken(pod.Namespace, pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			Audiences:         audiences,
			ExpirationSeconds: source.ExpirationSeconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("token of service account %q: %w", pod.Spec.ServiceAccountName, err)
	}
	return payload{source.Path: {Data: []byte(answer.Status.Token), Mode: *mode}}, nil
}

func mode(wanted *int32) *int32 {
	if wanted == nil {
		fallback := fallbackMode
		return &fallback
	}
	return wanted
}

func isSet(flag *bool) bool { return flag != nil && *flag }
