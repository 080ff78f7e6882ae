package apiserver

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/compatibility"
	baseversion "k8s.io/component-base/version"

	generatedopenapi "github.com/holdfast-project/holdfast/generated/openapi"
)

const title = "Holdfast"

// newConfig is the configuration of a server of our kinds without a way to
// serve or to tell users apart; both come from options, or from a test.
func newConfig() *genericapiserver.Config {
	config := genericapiserver.NewConfig(Codecs)
	config.Serializer = withoutProtobuf{Codecs}
	config.EffectiveVersion = compatibility.NewEffectiveVersionFromString(plainVersion(baseversion.Get().GitVersion), "", "")

	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(generatedopenapi.GetOpenAPIDefinitions, openapi.NewDefinitionNamer(Scheme))
	config.OpenAPIConfig.Info.Title = title
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, openapi.NewDefinitionNamer(Scheme))
	config.OpenAPIV3Config.Info.Title = title

	config.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return genericapiserver.DefaultBuildHandlerChain(forLists(handler), c)
	}
	config.ShutdownWatchTerminationGracePeriod = watchTerminationGracePeriod
	return config
}

// plainVersion keeps the numbers of a version. An unstamped build has none, and
// the library panics on a text that is no version.
func plainVersion(stamped string) string {
	numbers, _, _ := strings.Cut(stamped, "-")
	numbers, _, _ = strings.Cut(numbers, "+")
	parsed, err := version.ParseGeneric(numbers)
	if err != nil || parsed.Major() == 0 && parsed.Minor() == 0 {
		return "0.1.0"
	}
	return parsed.String()
}

// config applies the options.
func (o *Options) config() (*genericapiserver.Config, error) {
	config := newConfig()
	config.ShutdownDelayDuration = o.ShutdownDelay
	if err := o.SecureServing.ApplyToConfig(config); err != nil {
		return nil, fmt.Errorf("serving: %w", err)
	}
	if err := o.Authentication.ApplyTo(&config.Authentication, config.SecureServing, config.OpenAPIConfig); err != nil {
		return nil, fmt.Errorf("authentication: %w", err)
	}
	config.Authentication.Authenticator = refuseAnonymous(config.Authentication.Authenticator)
	if err := o.Authorization.ApplyTo(&config.Authorization); err != nil {
		return nil, fmt.Errorf("authorization: %w", err)
	}
	if err := o.Audit.ApplyTo(config); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	if err := o.Features.ApplyTo(config, nil, nil); err != nil {
		return nil, fmt.Errorf("features: %w", err)
	}
	return config, nil
}
