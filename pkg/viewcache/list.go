package viewcache

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// exactName reports the one name a match can be about, the common case of
// "kubectl get NAME -w".
func (m Match) exactName() (string, bool) {
	if m.fields == nil {
		return "", false
	}
	return m.fields.RequiresExactMatch("metadata.name")
}

// List returns every matching view, sorted by namespace and name, and the
// version the answer is of. Everything is returned at once whatever limit says,
// which the API allows, so there is never a continue token to honour.
func (c *Cache[V, P]) List(match Match, opts *metainternalversion.ListOptions) ([]V, string, error) {
	if err := match.knows(c.known); err != nil {
		return nil, "", apierrors.NewBadRequest(err.Error())
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if err := c.checkListVersion(opts); err != nil {
		return nil, "", err
	}
	found := c.snapshot(match)
	items := make([]V, 0, len(found))
	for _, obj := range found {
		items = append(items, *obj)
	}
	return items, formatVersion(c.current), nil
}

// checkListVersion refuses what the present state does not answer.
func (c *Cache[V, P]) checkListVersion(opts *metainternalversion.ListOptions) error {
	if opts == nil {
		return nil
	}
	if opts.Continue != "" {
		return apierrors.NewBadRequest("invalid continue token: this server answers every list at once and issues none")
	}
	if opts.ResourceVersion == "" || opts.ResourceVersion == "0" {
		return nil
	}
	version, err := parseVersion(opts.ResourceVersion)
	switch {
	case err != nil:
		return apierrors.NewBadRequest(err.Error())
	case c.opts.Versions.standby:
		return errExpired(version)
	case version > c.current:
		return errTooLarge(version, c.current)
	case version < c.opts.Versions.base:
		return errExpired(version)
	case opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact && version != c.current:
		return errExpired(version)
	}
	return nil
}

// CheckVersion refuses a version that the present state is not known to be as
// new as. Empty and "0" accept anything.
func (c *Cache[V, P]) CheckVersion(version string) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.checkListVersion(&metainternalversion.ListOptions{ResourceVersion: version})
}
