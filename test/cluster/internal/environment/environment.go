package environment

import (
	"fmt"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// Sources answers the objects that variables may come from.
type Sources interface {
	GetConfigMap(namespace, name string) (*corev1.ConfigMap, error)
	GetSecret(namespace, name string) (*corev1.Secret, error)
}

// Variables is a container's environment.
type Variables map[string]string

// List answers the environment as processes take it, sorted.
func (v Variables) List() []string {
	list := make([]string, 0, len(v))
	for name, value := range v {
		list = append(list, name+"="+value)
	}
	sort.Strings(list)
	return list
}

// Build works out a container's variables on top of those the node sets. The
// pod's status must hold its addresses.
func Build(pod *corev1.Pod, container *corev1.Container, base Variables, sources Sources) (Variables, error) {
	result := Variables{}
	for name, value := range base {
		result[name] = value
	}
	for _, from := range container.EnvFrom {
		if err := addFrom(result, pod.Namespace, from, sources); err != nil {
			return nil, err
		}
	}
	// References see what was defined before them and what the node set.
	mapping := expansion.MappingFuncFor(result)
	for _, variable := range container.Env {
		value := expansion.Expand(variable.Value, mapping)
		if variable.ValueFrom != nil {
			found, ok, err := valueFrom(pod, container, variable.ValueFrom, sources)
			if err != nil {
				return nil, fmt.Errorf("environment variable %s: %w", variable.Name, err)
			}
			if !ok {
				continue
			}
			value = found
		}
		result[variable.Name] = value
	}
	return result, nil
}

// Expand replaces $(NAME) in a command and its arguments.
func Expand(words []string, variables Variables) []string {
	mapping := expansion.MappingFuncFor(variables)
	expanded := make([]string, 0, len(words))
	for _, word := range words {
		expanded = append(expanded, expansion.Expand(word, mapping))
	}
	return expanded
}

func addFrom(result Variables, namespace string, from corev1.EnvFromSource, sources Sources) error {
	switch {
	case from.ConfigMapRef != nil:
		object, err := sources.GetConfigMap(namespace, from.ConfigMapRef.Name)
		if missing(err, from.ConfigMapRef.Optional) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("configmap %q: %w", from.ConfigMapRef.Name, err)
		}
		for name, value := range object.Data {
			result[from.Prefix+name] = value
		}
	case from.SecretRef != nil:
		object, err := sources.GetSecret(namespace, from.SecretRef.Name)
		if missing(err, from.SecretRef.Optional) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("secret %q: %w", from.SecretRef.Name, err)
		}
		for name, value := range object.Data {
			result[from.Prefix+name] = string(value)
		}
	}
	return nil
}

// valueFrom answers false for an optional source that is not there.
func valueFrom(pod *corev1.Pod, container *corev1.Container, from *corev1.EnvVarSource, sources Sources) (string, bool, error) {
	switch {
	case from.FieldRef != nil:
		value, err := Field(pod, from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err := Resource(pod, container.Name, from.ResourceFieldRef)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		object, err := sources.GetConfigMap(pod.Namespace, ref.Name)
		if missing(err, ref.Optional) {
			return "", false, nil
		}
		if err != nil {
			return "", false, fmt.Errorf("configmap %q: %w", ref.Name, err)
		}
		value, ok := object.Data[ref.Key]
		return value, ok, absent(ok, ref.Optional, "configmap", ref.Name, ref.Key)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		object, err := sources.GetSecret(pod.Namespace, ref.Name)
		if missing(err, ref.Optional) {
			return "", false, nil
		}
		if err != nil {
			return "", false, fmt.Errorf("secret %q: %w", ref.Name, err)
		}
		value, ok := object.Data[ref.Key]
		return string(value), ok, absent(ok, ref.Optional, "secret", ref.Name, ref.Key)
	}
	return "", false, fmt.Errorf("this kind of valueFrom is not supported")
}

func missing(err error, optional *bool) bool {
	return apierrors.IsNotFound(err) && optional != nil && *optional
}

func absent(ok bool, optional *bool, kind, name, key string) error {
	if ok || (optional != nil && *optional) {
		return nil
	}
	return fmt.Errorf("%s %q has no key %q", kind, name, key)
}

// Field answers a downward API field, those of spec and status included.
func Field(pod *corev1.Pod, path string) (string, error) {
	switch path {
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return pod.Status.HostIP, nil
	case "status.hostIPs":
		return pod.Status.HostIP, nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.podIPs":
		addresses := make([]string, 0, len(pod.Status.PodIPs))
		for _, address := range pod.Status.PodIPs {
			addresses = append(addresses, address.IP)
		}
		return strings.Join(addresses, ","), nil
	}
	return fieldpath.ExtractFieldPathAsString(pod, path)
}

// Resource answers a container's request or limit. An absent limit is zero:
// this node does not enforce any.
func Resource(pod *corev1.Pod, container string, ref *corev1.ResourceFieldSelector) (string, error) {
	if ref.ContainerName != "" {
		container = ref.ContainerName
	}
	return resource.ExtractResourceValueByContainerName(ref, pod, container)
}
