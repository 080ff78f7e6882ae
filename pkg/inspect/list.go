package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	views "github.com/holdfast-project/holdfast/pkg/apis/retained/v1alpha1"
)

// aggregatedTimeout bounds how long the aggregated API is waited for, since the
// stored objects can be read without it.
const aggregatedTimeout = 10 * time.Second

// Listing is all checkpoints of a namespace or of all.
type Listing struct {
	Report *Report
	// Unserved is why the aggregated API was not the one that answered; nil if it did.
	Unserved error
}

// List asks the aggregated API, which needs no right to read stored objects, and
// reads and judges those itself where that API is not there or does not answer.
func (c *Cluster) List(ctx context.Context) (*Listing, error) {
	report, unserved := c.listViews(ctx)
	if unserved == nil {
		return &Listing{Report: report}, nil
	}
	if ctx.Err() != nil || !isDown(unserved) {
		return nil, fmt.Errorf("listing retainedcheckpoints: %w", unserved)
	}
	report, err := c.Verify(ctx)
	if err != nil {
		return nil, err
	}
	return &Listing{Report: report, Unserved: unserved}, nil
}

// isDown tells an API that is not there from one that refuses.
func isDown(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // no answer at all
	}
	code := status.Status().Code
	return code == http.StatusNotFound || code >= http.StatusInternalServerError
}

func (c *Cluster) listViews(ctx context.Context) (*Report, error) {
	ctx, cancel := context.WithTimeout(ctx, aggregatedTimeout)
	defer cancel()
	options := metav1.ListOptions{Limit: pageSize}
	allowance, report := newAllowance(), &Report{}
	for {
		result := c.client.Get().AbsPath("/apis/"+views.SchemeGroupVersion.String()).
			NamespaceIfScoped(c.namespace, c.namespace != "").Resource("retainedcheckpoints").
			SpecificallyVersionedParams(&options, scheme.ParameterCodec, corev1.SchemeGroupVersion).
			SetHeader("Accept", "application/json").Do(ctx)
		if err := result.Error(); err != nil {
			return nil, err
		}
		raw, err := result.Raw()
		if err != nil {
			return nil, err
		}
		if err := allowance.spend(len(raw)); err != nil {
			return nil, err
		}
		var list views.RetainedCheckpointList
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, fmt.Errorf("reading a list of retainedcheckpoints: %w", decodeError(err))
		}
		for i := range list.Items {
			report.Checkpoints = append(report.Checkpoints, Checkpoint{View: &list.Items[i]})
		}
		if list.Continue == "" {
			return report, nil
		}
		options.Continue = list.Continue
	}
}
