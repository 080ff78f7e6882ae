package retainedcheckpoint

import (
	"bytes"
	"context"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// Content reads what is stored now. Views hold digests only, so every request
// for text is a read of its own.
type Content interface {
	// Configuration returns the configuration text of a checkpoint.
	Configuration(ctx context.Context, namespace, checkpoint string) ([]byte, error)
	// File returns the content of the object that stores an auxiliary file.
	File(ctx context.Context, namespace, kind, object string) ([]byte, error)
}

// ConfigStorage serves the subresource config: the text of a configuration or
// of an auxiliary file that holds no secret.
type ConfigStorage struct {
	views   *Storage
	content Content
}

var (
	_ rest.Storage           = (*ConfigStorage)(nil)
	_ rest.GetterWithOptions = (*ConfigStorage)(nil)
	_ rest.StorageMetadata   = (*ConfigStorage)(nil)
)

// NewConfigStorage returns the storage of retainedcheckpoints/config.
func NewConfigStorage(checkpoints *Storage, content Content) *ConfigStorage {
	return &ConfigStorage{views: checkpoints, content: content}
}

// New returns the kind that the subresource belongs to.
func (s *ConfigStorage) New() runtime.Object { return &views.RetainedCheckpoint{} }

// Destroy has nothing to release.
func (s *ConfigStorage) Destroy() {}

// NewGetOptions returns the query parameters.
func (s *ConfigStorage) NewGetOptions() (obj runtime.Object, subpath bool, key string) {
	return &views.RetainedCheckpointConfigOptions{}, false, ""
}

// ProducesMIMETypes says that answers are plain text.
func (s *ConfigStorage) ProducesMIMETypes(string) []string { return []string{"text/plain"} }

// ProducesObject says that answers are a string, for the API's description.
func (s *ConfigStorage) ProducesObject(string) any { return "" }

// Get returns text that was verified against the view's digests in this very
// request. Text that does not verify is refused rather than shown: whoever
// pipes it into a file would take it for the retained output.
func (s *ConfigStorage) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	opts, ok := options.(*views.RetainedCheckpointConfigOptions)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("options are a %T", options))
	}
	view, err := s.views.View(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	if opts.Path == "" {
		return s.configuration(ctx, view)
	}
	return s.file(ctx, view, opts.Path)
}

func (s *ConfigStorage) configuration(ctx context.Context, view *views.RetainedCheckpoint) (runtime.Object, error) {
	verified := meta.FindStatusCondition(view.Status.Conditions, views.ConditionVerified)
	if view.Status.Configuration == nil || verified == nil || verified.Status == metav1.ConditionFalse {
		message := "its configuration cannot be read"
		if verified != nil {
			message = verified.Message
		}
		return nil, refuse(view.Name, "the checkpoint does not verify: "+message)
	}
	content, err := s.content.Configuration(ctx, view.Namespace, view.Name)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of checkpoint %s: %w", view.Name, err)
	}
	return s.checked(view.Name, content, view.Status.Configuration.SHA256)
}

func (s *ConfigStorage) file(ctx context.Context, view *views.RetainedCheckpoint, path string) (runtime.Object, error) {
	artifact := findArtifact(view, path)
	switch {
	case artifact == nil:
		return nil, apierrors.NewNotFound(configResource, view.Name+"?path="+path)
	case !readable(artifact.Family):
		return nil, apierrors.NewForbidden(configResource, view.Name,
			fmt.Errorf("%s is of family %s, and certificates, keys and CA bundles are never served", path, artifact.Family))
	case artifact.Verdict != string(checkpoint.Verified) || artifact.Object == nil:
		return nil, refuse(view.Name, fmt.Sprintf("file %s does not verify: %s", path, artifact.Message))
	}
	content, err := s.content.File(ctx, view.Namespace, artifact.Object.Kind, artifact.Object.Name)
	if err != nil {
		return nil, fmt.Errorf("reading file %s of checkpoint %s: %w", path, view.Name, err)
	}
	return s.checked(view.Name, content, artifact.Checksum)
}

func (s *ConfigStorage) checked(name string, content []byte, want string) (runtime.Object, error) {
	if got := checkpoint.FileChecksum(content); got != want {
		return nil, refuse(name, fmt.Sprintf("what is stored changed while it was read: expected %s, found %s", want, got))
	}
	return &text{content: content}, nil
}

func findArtifact(view *views.RetainedCheckpoint, path string) *views.ArtifactStatus {
	for i := range view.Status.Artifacts {
		if view.Status.Artifacts[i].Path == path {
			return &view.Status.Artifacts[i]
		}
	}
	return nil
}

// readable lists the families that may be shown. A family of a later release
// is not among them.
func readable(family string) bool {
	switch family {
	case checkpoint.Map.String(), checkpoint.General.String(), checkpoint.CRTList.String():
		return true
	}
	return false
}

var configResource = views.Resource("retainedcheckpoints/config")

// refuse answers 409: the request is right, the stored state is not.
func refuse(name, why string) error {
	return apierrors.NewConflict(configResource, name, fmt.Errorf("%s", why))
}

// text is plain text on its way to the client.
type text struct {
	content []byte
}

// GetObjectKind says that text has no kind.
func (t *text) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns t itself: nobody changes text.
func (t *text) DeepCopyObject() runtime.Object { return t }

// InputStream hands the text out as it is, whatever the client accepts.
func (t *text) InputStream(context.Context, string, string) (stream io.ReadCloser, flush bool, contentType string, err error) {
	return io.NopCloser(bytes.NewReader(t.content)), false, "text/plain; charset=utf-8", nil
}
