package publish

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestP17abAnOutputIsStoredOrRefusedByItsSize: either stored and read back, or refused before
// anything is applied, with an error that names the file.
func TestP17abAnOutputIsStoredOrRefusedByItsSize(t *testing.T) {
	t.Parallel()
	const kB, MB = 1000, 1000 * 1000
	// Long lines, since every line of a map becomes an entry of the plan.
	line := "host.example.org " + strings.Repeat("backend", 100) + "\n"
	tests := []struct {
		name    string
		file    string
		content string
		refused string
	}{
		{name: "a map of 100 kB", file: "maps/a.map", content: noise(100 * kB)},
		{name: "a map of 700 kB", file: "maps/a.map", content: noise(700 * kB)},
		{
			name: "a map of 1.1 MB, whose entries the plan repeats", file: "maps/a.map",
			content: noise(1100 * kB), refused: "checkpoint object",
		},
		{name: "an error page of 1.1 MB", file: "files/a.http", content: noise(1100 * kB)},
		{name: "a map of 1.6 MB", file: "maps/a.map", content: noise(1600 * kB), refused: "object"},
		{name: "a map of 2 MB", file: "maps/a.map", content: noise(2 * MB), refused: "object"},
		{name: "a repetitive map of 3 MB", file: "maps/a.map", content: strings.Repeat(line, 3*MB/len(line))},
		{
			name: "an error page below the threshold that doubles when it is stored", file: "files/a.http",
			content: strings.Repeat("\"\n", 500*kB),
		},
		{name: "a Secret of 900 kB", file: "ssl/a.pem", content: noise(900 * kB)},
		{name: "a Secret over 1 MiB", file: "ssl/a.pem", content: noise(1<<20 + 1), refused: "secret data"},
		{name: "a repetitive Secret over 1 MiB", file: "ssl/a.pem", content: strings.Repeat(line, 2<<20/len(line))},
		{name: "a Secret that fits only when compressed", file: "ssl/a.pem", content: strings.Repeat(line, (1<<20-1)/len(line))},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if thin && len(tc.content) > 1<<20 && tc.refused == "" {
				return
			}
			o := output(t, "global\n", map[string]string{tc.file: tc.content})
			err := CheckSize(o, testSettings())
			if tc.refused == "" {
				must(t, err)
				if thin && len(tc.content) > 500*kB && tc.content[0] != line[0] {
					return // large objects take seconds
				}
				api := newAPI(t)
				p := newPublisher(api, &fence{})
				must(t, p.outputNow(t, o))
				must(t, p.checkpointNow(t, o))
				if got := pointers(t, api); len(got) != 1 {
					t.Errorf("pointers %v, want one that verifies", got)
				}
				return
			}
			var size *SizeError
			if !errors.As(err, &size) {
				t.Fatalf("CheckSize() = %v, want a SizeError", err)
			}
			if size.File != tc.file || size.What != tc.refused || size.Bytes <= size.Limit {
				t.Errorf("CheckSize() = %v", err)
			}
		})
	}
}

func TestAConfigurationIsMeasuredWithItsPayloadAndReferences(t *testing.T) {
	t.Parallel()
	err := CheckSize(output(t, noise(1500*1000), nil), testSettings())
	var size *SizeError
	if !errors.As(err, &size) || size.File != "haproxy.cfg" {
		t.Errorf("CheckSize() = %v, want a SizeError for haproxy.cfg", err)
	}
}

func TestAThresholdOfZeroNeverCompresses(t *testing.T) {
	t.Parallel()
	s := testSettings()
	s.CompressionThreshold = 0
	o := output(t, "global\n", map[string]string{"maps/a.map": strings.Repeat("a "+strings.Repeat("b", 1<<10)+"\n", 2<<10)})
	if err := CheckSize(o, s); err == nil {
		t.Error("an object of 2 MiB was let through")
	}
}

func TestAnOutputThatNoReaderCouldRestoreIsRefused(t *testing.T) {
	t.Parallel()
	o := site(t, "a")
	o.Plan.ID = "0000000000000000"
	if err := CheckSize(o, testSettings()); err == nil {
		t.Error("a plan under a wrong ID was let through")
	}
}

func statusError(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}

func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	status := statusError
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{name: "etcd's own limit", err: status(http.StatusInternalServerError, "etcdserver: request is too large"), want: true},
		{
			name: "the transport's limit to etcd", want: true,
			err: status(http.StatusInternalServerError, "rpc error: code = ResourceExhausted desc = trying to send message larger than max"),
		},
		{name: "the request limit", err: status(http.StatusRequestEntityTooLarge, "limit is 3145728"), want: true},
		{name: "an invalid object", err: apierrors.NewInvalid(schema.GroupKind{}, "x", nil), want: true},
		{name: "a server that will recover", err: status(http.StatusInternalServerError, "leader changed")},
		{name: "a conflict", err: apierrors.NewConflict(schema.GroupResource{}, "x", errDown)},
		{name: "no right, which an operator can give", err: apierrors.NewForbidden(schema.GroupResource{}, "x", errDown)},
		{name: "too many requests", err: apierrors.NewTooManyRequests("later", 1)},
		{name: "no answer", err: errDown},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, errors.Is(explain(tc.err, "write x"), ErrRefused)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}
