package publish

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// What the store takes. etcd refuses requests over 1.5 MiB with its defaults.
const (
	// maxStoredBytes leaves some of that for what surrounds the value in a request.
	maxStoredBytes = 1536<<10 - 16<<10
	// maxObjectBytes is what an object may take when it is written first. The
	// entries of 300 pods and more and their managed fields always fit on top.
	maxObjectBytes = maxStoredBytes - fleetRoom
	// fleetRoom is that room; statuses.shown keeps a larger fleet within what an
	// object really has.
	fleetRoom          = 300 * 900
	maxSecretBytes     = corev1.MaxSecretSize
	maxAnnotationBytes = 256 << 10
	// objectOverhead is what metadata and status without references take at most.
	objectOverhead = 8 << 10
	// referenceBytes is what one reference takes: kind, name and namespace at
	// their longest.
	referenceBytes = 512
)

// CheckSize refuses an output that could not be stored, before it becomes the
// fleet's intent. The error is a SizeError, or says why no reader could restore
// the output.
func CheckSize(o *checkpoint.Output, s Settings) error {
	e, err := encode(o, s.CompressionThreshold)
	if err != nil {
		return err
	}
	_, err = e.largest(s.Template)
	return err
}

// largest is the stored size of the largest object, or what does not fit.
func (e *encoded) largest(template checkpoint.Template) (int, error) {
	largest, fullest := 0, 0
	measure := func(path string, object any) error {
		size := objectSize(object)
		largest, fullest = max(largest, size), max(fullest, size)
		if size > maxObjectBytes {
			return &SizeError{File: path, What: "object", Bytes: size, Limit: maxObjectBytes}
		}
		return nil
	}
	for i := range e.files {
		f := &e.files[i]
		object := buildChild(f, metav1.ObjectMeta{
			Name: checkpoint.SharedChildName(f.Descriptor, f.checksum, template.Name, template.UID), Namespace: template.Namespace,
			Labels: sharedLabels(template), OwnerReferences: ownedBy(templateOwner(template)),
		}, placeholderClaim)
		if secret, ok := object.(*corev1.Secret); ok {
			if err := checkSecret(f.Path, secret); err != nil {
				return largest, err
			}
			// A Secret is stored as protobuf, its data once and as it is.
			largest = max(largest, secretBytes(secret))
			continue
		}
		if err := measure(f.Path, object); err != nil {
			return largest, err
		}
	}
	cfg := buildCheckpoint(e, template, checkpoint.CheckpointName(template.Name, e.checksum, e.payload))
	cfg.Status.AuxiliaryFiles = e.references(template.Namespace, func(f *file) string {
		return checkpoint.SharedChildName(f.Descriptor, f.checksum, template.Name, template.UID)
	})
	size := objectSize(cfg)
	// The ordinary output is a checkpoint without the payload, and the room for
	// pointers is in every object's overhead.
	e.entryRoom = maxStoredBytes - max(fullest, size-len(e.payload))
	if size > maxObjectBytes {
		return largest, &SizeError{File: e.heaviest(), What: "checkpoint object", Bytes: size, Limit: maxObjectBytes}
	}
	return max(largest, size), nil
}

// heaviest is the file to blame for a checkpoint's own object: the
// configuration is in it, and so are the entries of maps and crt-lists, which
// the plan repeats.
func (e *encoded) heaviest() string {
	path, size := e.output.ConfigurationPath, len(e.text)
	for i := range e.files {
		f := &e.files[i]
		if listed := f.Family == checkpoint.Map || f.Family == checkpoint.CRTList; listed && len(e.payload) > size && len(f.content) > size {
			path, size = f.Path, len(f.content)
		}
	}
	return path
}

// placeholderClaim has the length of a claim.
const placeholderClaim = "AAAAAAAAAAAAAAAAAAAAAAAAAA"

func checkSecret(path string, secret *corev1.Secret) error {
	if size := secretBytes(secret); size > maxSecretBytes {
		return &SizeError{File: path, What: "secret data", Bytes: size, Limit: maxSecretBytes}
	}
	annotations := 0
	for key, value := range secret.Annotations {
		annotations += len(key) + len(value)
	}
	if annotations > maxAnnotationBytes {
		return &SizeError{File: path, What: "annotations", Bytes: annotations, Limit: maxAnnotationBytes}
	}
	return nil
}

func secretBytes(secret *corev1.Secret) int {
	size := 0
	for _, value := range secret.Data {
		size += len(value)
	}
	return size
}

// objectSize is the size of an object as the API server stores it, with room
// for what the server and status writers add.
func objectSize(object any) int {
	raw, err := json.Marshal(object)
	if err != nil {
		return maxObjectBytes + 1 // what cannot be encoded cannot be stored
	}
	return len(raw) + objectOverhead
}

// jsonSize is the size of a text as a JSON string: control characters and
// quotes grow when they are stored.
func jsonSize(text string) int {
	raw, err := json.Marshal(text)
	if err != nil {
		return maxObjectBytes + 1
	}
	return len(raw)
}

// references are the committed references of a set whose children have the
// given names, each list in the order of its files.
func (e *encoded) references(namespace string, name func(*file) string) *v1alpha1.AuxiliaryFileReferences {
	refs := &v1alpha1.AuxiliaryFileReferences{SetID: e.setID}
	for _, f := range sortedByName(e.files) {
		ref := v1alpha1.FileReference{Kind: f.Family.Kind(), Name: name(f), Namespace: namespace}
		switch f.Family {
		case checkpoint.Map:
			refs.MapFiles = append(refs.MapFiles, ref)
		case checkpoint.Certificate:
			refs.SSLCertificates = append(refs.SSLCertificates, ref)
		case checkpoint.CA:
			refs.SSLCaFiles = append(refs.SSLCaFiles, ref)
		case checkpoint.CRTList:
			refs.CRTListFiles = append(refs.CRTListFiles, ref)
		default:
			refs.GeneralFiles = append(refs.GeneralFiles, ref)
		}
	}
	return refs
}
