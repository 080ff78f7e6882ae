package apiserver

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/holdfast-project/holdfast/pkg/apis/retained/install"
)

var (
	// Scheme knows the kinds that are served.
	Scheme = newScheme()
	// Codecs encode them.
	Codecs = serializer.NewCodecFactory(Scheme)
)

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	// Status, discovery and option kinds live in the unversioned group.
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return scheme
}

// withoutProtobuf hides the protobuf encoding, which the codec factory offers
// although no view has one. Otherwise a client that prefers protobuf and would
// take JSON gets 406. Metadata and tables still come in protobuf, since those
// are encoded by the codecs of the meta group.
type withoutProtobuf struct {
	runtime.NegotiatedSerializer
}

// SupportedMediaTypes lists what views can be encoded as.
func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeProtobuf
	})
}
