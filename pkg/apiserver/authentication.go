package apiserver

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// healthPaths are open to everybody, because the kubelet probes without an
// identity. They answer "ok" or the name of what is not.
var healthPaths = []string{"/healthz", "/livez", "/readyz"}

// refuseAnonymous turns anonymous access off except for health. The options of
// the library have a field for that, but what they build ignores it.
func refuseAnonymous(inner authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := inner.AuthenticateRequest(req)
		if ok && response.User.GetName() == user.Anonymous && !isHealth(req.URL.Path) {
			return nil, false, err
		}
		return response, ok, err
	})
}

func isHealth(path string) bool {
	for _, health := range healthPaths {
		if path == health || strings.HasPrefix(path, health+"/") {
			return true
		}
	}
	return false
}
