package httpsource

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/pkg/apis/haptic/v1alpha1"
)

// Defaults and limits of a source. They are the API's, where it can state them.
const (
	DefaultInterval = time.Minute
	DefaultTimeout  = 5 * time.Second
	DefaultMaxBytes = 1 << 20

	minInterval = time.Second
	maxTimeout  = time.Minute
	limitBytes  = 8 << 20
	maxSources  = 32
)

// settings are one source's, with defaults filled in. They compare by value.
type settings struct {
	url      string
	critical bool
	interval time.Duration
	timeout  time.Duration
	maxBytes int64
}

// Validate refuses sources that could not be fetched as they are declared.
func Validate(resources map[string]v1alpha1.HTTPResource) error {
	_, err := settingsFor(resources)
	return err
}

func settingsFor(resources map[string]v1alpha1.HTTPResource) (map[string]settings, error) {
	if len(resources) > maxSources {
		return nil, fmt.Errorf("%d httpResources exceed the limit of %d", len(resources), maxSources)
	}
	out := make(map[string]settings, len(resources))
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		s, err := settingsOf(resources[name])
		if err != nil {
			return nil, fmt.Errorf("httpResource %q: %w", name, err)
		}
		out[name] = s
	}
	return out, nil
}

func settingsOf(r v1alpha1.HTTPResource) (settings, error) {
	if err := checkURL(r.URL); err != nil {
		return settings{}, err
	}
	s := settings{
		url: r.URL, critical: r.Critical, maxBytes: DefaultMaxBytes,
		interval: orDefault(r.Interval, DefaultInterval), timeout: orDefault(r.Timeout, DefaultTimeout),
	}
	if r.MaxBytes != nil {
		s.maxBytes = *r.MaxBytes
	}
	switch {
	case s.interval < minInterval:
		return settings{}, fmt.Errorf("interval %s must be at least %s", s.interval, minInterval)
	case s.timeout <= 0 || s.timeout > maxTimeout:
		return settings{}, fmt.Errorf("timeout %s must be more than 0s and at most %s", s.timeout, maxTimeout)
	case s.maxBytes < 1 || s.maxBytes > limitBytes:
		return settings{}, fmt.Errorf("maxBytes %d must be between 1 and %d", s.maxBytes, limitBytes)
	}
	return s, nil
}

func orDefault(d *metav1.Duration, fallback time.Duration) time.Duration {
	if d == nil {
		return fallback
	}
	return d.Duration
}

// checkURL never quotes what it refuses: a URL that does not parse cannot be
// told without its password either.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("url is none")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("url must begin with http:// or https://, not with %q", u.Scheme)
	case u.Hostname() == "":
		return errors.New("url names no host")
	}
	return nil
}
