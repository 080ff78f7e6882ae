package acceptance

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-project/holdfast/test/owncluster"
)

// atOnce is how many tests may run side by side; the default, the number of
// processors, would make a sequence of TestAllAcceptanceParallel.
const atOnce = "16"

func TestMain(m *testing.M) {
	cluster := owncluster.Cluster{Target: "acceptance", Require: "haproxy", Reuse: true}
	os.Exit(cluster.Main(func() int {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			fmt.Fprintln(os.Stderr, "acceptance:", err)
			return 1
		}
		code := m.Run()
		timings.print(os.Stdout)
		return code
	}))
}
