package viewcache

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errExpired makes a client start over with a fresh list.
func errExpired(version uint64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d was not issued by this server, or its history is gone", version))
}

// errTooLarge has the shape that client-go's reflector knows. It asks for no
// delay: this process never issues versions in answer to a request, so waiting
// brings nothing, and the client's next step is to start over anyway.
func errTooLarge(version, current uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, current), 0)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}
