package aggregation

import (
	"os"
	"testing"

	"github.com/holdfast-project/holdfast/test/owncluster"
)

func TestMain(m *testing.M) {
	os.Exit(owncluster.Cluster{Target: "conformance", Namespaces: []string{system, edge}}.Main(m.Run))
}
