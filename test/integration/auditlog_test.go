package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// maxEntryBytes bounds one line of the audit log.
const maxEntryBytes = 1 << 20

// reviews are questions about who somebody is and what he may do. They are
// creates in form; the API server answers them and stores nothing. Delegated
// authentication and authorization ask them, so they are counted apart.
var reviews = []string{"tokenreviews", "subjectaccessreviews"}

// asked is what kube-apiserver itself noted of one user: every request that is no
// read, whether it was granted or refused.
type asked struct {
	// writes are counted by verb and object, reviews by resource.
	writes, reviews map[string]int
}

// askedBy reads the cluster's audit log, which has an entry before its request
// has an answer.
func askedBy(t *testing.T, user string) asked {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(os.Getenv("HOLDFAST_DEVCLUSTER"), "logs", "audit*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the cluster has no audit log: %v", err)
	}
	found := asked{writes: map[string]int{}, reviews: map[string]int{}}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, maxEntryBytes)
		for lines.Scan() {
			found.add(t, lines.Bytes(), user)
		}
		if err := lines.Err(); err != nil {
			t.Fatalf("reading %s: %v", name, err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func (a asked) add(t *testing.T, line []byte, user string) {
	t.Helper()
	var entry struct {
		Verb, RequestURI string
		User             struct{ Username string }
		ObjectRef        *struct{ Resource, Subresource, Namespace, Name string }
	}
	if err := json.Unmarshal(line, &entry); err != nil {
		t.Fatalf("an entry of the audit log does not decode: %v: %s", err, line)
	}
	if entry.User.Username != user {
		return
	}
	ref := entry.ObjectRef
	switch {
	case ref == nil:
		a.writes[entry.Verb+" "+entry.RequestURI]++
	case entry.Verb == "create" && ref.Subresource == "" && slices.Contains(reviews, ref.Resource):
		a.reviews[ref.Resource]++
	default:
		resource := strings.TrimSuffix(ref.Resource+"/"+ref.Subresource, "/")
		a.writes[fmt.Sprintf("%s %s %s/%s", entry.Verb, resource, ref.Namespace, ref.Name)]++
	}
}

// wantWrites compares what a user wrote with the only things that he may have
// written, each of which he must have.
func wantWrites(t *testing.T, user string, want ...string) {
	t.Helper()
	got := []string{}
	found := askedBy(t, user)
	for write := range found.writes {
		got = append(got, write)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		t.Errorf("writes of %s in the audit log of kube-apiserver (-want +got):\n%s", user, diff)
	}
	t.Logf("%s asked for the writes %v and the reviews %v", user, found.writes, found.reviews)
}
