package fakeapi

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var metadataPath = field.NewPath("metadata")

func validateMeta(object runtime.Object) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessor(object.(metav1.Object), true, apivalidation.NameIsDNSSubdomain, metadataPath)
}

// setDefaults fills in what the server would, for kinds that have something.
func setDefaults(object runtime.Object) {
	switch o := object.(type) {
	case *corev1.Secret:
		if o.Type == "" {
			o.Type = corev1.SecretTypeOpaque
		}
		for key, value := range o.StringData {
			if o.Data == nil {
				o.Data = map[string][]byte{}
			}
			o.Data[key] = []byte(value)
		}
		o.StringData = nil
	case *corev1.Pod:
		if o.Status.Phase == "" {
			o.Status.Phase = corev1.PodPending
		}
	}
}

var leaseRules = rules{
	prepareCreate: func(object runtime.Object) { dropGatedFields(object, &coordinationv1.Lease{}) },
	prepareUpdate: dropGatedFields,
	validate:      validateLease,
}

// dropGatedFields drops what belongs to coordinated leader election, which is
// off by default.
func dropGatedFields(object, old runtime.Object) {
	spec, before := &object.(*coordinationv1.Lease).Spec, old.(*coordinationv1.Lease).Spec
	if before.Strategy == nil {
		spec.Strategy = nil
	}
	if before.PreferredHolder == nil {
		spec.PreferredHolder = nil
	}
}

func validateLease(object runtime.Object) field.ErrorList {
	errs, spec, path := validateMeta(object), object.(*coordinationv1.Lease).Spec, field.NewPath("spec")
	if d := spec.LeaseDurationSeconds; d != nil && *d <= 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDurationSeconds"), *d, "must be greater than 0"))
	}
	if n := spec.LeaseTransitions; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(path.Child("leaseTransitions"), *n, "must be greater than or equal to 0"))
	}
	return errs
}

var secretRules = rules{
	prepareUpdate: func(object, old runtime.Object) {
		if secret := object.(*corev1.Secret); secret.Type == "" {
			secret.Type = old.(*corev1.Secret).Type
		}
	},
	validate: func(object runtime.Object) field.ErrorList {
		secret := object.(*corev1.Secret)
		errs, path, size := validateMeta(object), field.NewPath("data"), 0
		for key, value := range secret.Data {
			errs = append(errs, validateDataKey(path, key)...)
			size += len(value)
		}
		if size > corev1.MaxSecretSize {
			errs = append(errs, field.TooLong(path, "", corev1.MaxSecretSize))
		}
		return errs
	},
	validateUpdate: func(object, old runtime.Object) field.ErrorList {
		secret, before := object.(*corev1.Secret), old.(*corev1.Secret)
		errs := apivalidation.ValidateImmutableField(secret.Type, before.Type, field.NewPath("type"))
		if before.Immutable != nil && *before.Immutable {
			if secret.Immutable == nil || !*secret.Immutable {
				errs = append(errs, field.Forbidden(field.NewPath("immutable"), "field is immutable when `immutable` is set"))
			}
			if !apiequality.Semantic.DeepEqual(secret.Data, before.Data) {
				errs = append(errs, field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set"))
			}
		}
		return errs
	},
}

func validateDataKey(path *field.Path, key string) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(path.Key(key), key, message))
	}
	return errs
}

func secretFields(o *stored) fields.Set {
	return fields.Set{"type": string(o.object.(*corev1.Secret).Type)}
}

var configMapRules = rules{
	validate: func(object runtime.Object) field.ErrorList {
		configMap := object.(*corev1.ConfigMap)
		errs, size := validateMeta(object), 0
		for key, value := range configMap.Data {
			errs = append(errs, validateDataKey(field.NewPath("data"), key)...)
			size += len(value)
		}
		for key, value := range configMap.BinaryData {
			errs = append(errs, validateDataKey(field.NewPath("binaryData"), key)...)
			size += len(value)
		}
		if size > corev1.MaxSecretSize {
			errs = append(errs, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
		}
		return errs
	},
}

var eventRules = rules{
	validate: func(object runtime.Object) field.ErrorList {
		event := object.(*corev1.Event)
		errs := validateMeta(object)
		if event.InvolvedObject.Namespace != event.Namespace {
			errs = append(errs, field.Invalid(field.NewPath("involvedObject", "namespace"), event.InvolvedObject.Namespace, "does not match event.namespace"))
		}
		return errs
	},
}

func eventFields(o *stored) fields.Set {
	event := o.object.(*corev1.Event)
	return fields.Set{
		"involvedObject.kind":      event.InvolvedObject.Kind,
		"involvedObject.namespace": event.InvolvedObject.Namespace,
		"involvedObject.name":      event.InvolvedObject.Name,
		"involvedObject.uid":       string(event.InvolvedObject.UID),
		"reason":                   event.Reason,
		"type":                     event.Type,
	}
}

var podRules = rules{
	prepareCreate: func(object runtime.Object) {
		pod := object.(*corev1.Pod)
		pod.Generation = 1
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort}
	},
	prepareUpdate: func(object, old runtime.Object) {
		object.(*corev1.Pod).Status = old.(*corev1.Pod).Status
	},
	validate: validatePod,
	validateUpdate: func(object, old runtime.Object) field.ErrorList {
		if apiequality.Semantic.DeepEqual(object.(*corev1.Pod).Spec, old.(*corev1.Pod).Spec) {
			return nil
		}
		return field.ErrorList{field.Forbidden(field.NewPath("spec"), "the fake API server knows no change of a pod's spec")}
	},
}

var podStatusRules = rules{
	prepareUpdate: func(object, old runtime.Object) {
		pod, before := object.(*corev1.Pod), old.(*corev1.Pod)
		pod.Spec, pod.OwnerReferences = before.Spec, before.OwnerReferences
		pod.Status.QOSClass = before.Status.QOSClass
	},
	validate: validatePod,
}

func validatePod(object runtime.Object) field.ErrorList {
	errs := validateMeta(object)
	if len(object.(*corev1.Pod).Spec.Containers) == 0 {
		errs = append(errs, field.Required(field.NewPath("spec", "containers"), ""))
	}
	return errs
}

func podFields(o *stored) fields.Set {
	pod := o.object.(*corev1.Pod)
	return fields.Set{"spec.nodeName": pod.Spec.NodeName, "status.phase": string(pod.Status.Phase), "status.podIP": pod.Status.PodIP}
}

// podGracePeriod gives a pod that may run somewhere the time to end.
func podGracePeriod(object runtime.Object, options *metav1.DeleteOptions) bool {
	pod, period := object.(*corev1.Pod), int64(corev1.DefaultTerminationGracePeriodSeconds)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		period = *own
	}
	if options.GracePeriodSeconds != nil {
		period = *options.GracePeriodSeconds
	}
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		period = 0
	}
	options.GracePeriodSeconds = &period
	return true
}
