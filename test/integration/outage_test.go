package integration

import (
	"context"
	"os/exec"
	"regexp"
	"testing"
	"time"
)

// outageLimit bounds the second act. Its steps have limits of their own, whose
// messages are more precise.
const outageLimit = 8 * time.Minute

// outageShows are what a reader of the second act is shown, in its order.
var outageShows = []string{
	`the leader has noticed: httpResource "blocklist"`,
	`nobody leads: the Lease still names the dead `,
	`it cannot render: critical httpResource "blocklist"`,
	`event RetainedConfigActive: Checkpoint `,
	`is Ready, \d+\.\d s after the kill`,
	`gauge of the leader: haptic_retained_config_active 1`,
	`curl https://shop\.example:8443/ through the new proxy: `,
	`the leader renders again, \d+\.\d s after the repair; gauge: haptic_retained_config_active 0`,
	`done: the new proxy was Ready `,
}

func TestTheSecondActOfTheDemoShowsARecoveryAndLeavesTheDemoAsItWas(t *testing.T) {
	before := mustNewest(t)
	ctx, cancel := context.WithTimeout(t.Context(), outageLimit)
	defer cancel()
	began := time.Now()
	out, err := exec.CommandContext(ctx, "../../hack/demo-outage.sh").CombinedOutput()
	t.Logf("hack/demo-outage.sh, %.1f s:\n%s", time.Since(began).Seconds(), out)
	if err != nil {
		t.Fatal(err)
	}
	rest := string(out)
	for _, pattern := range outageShows {
		at := regexp.MustCompile(pattern).FindStringIndex(rest)
		if at == nil {
			t.Errorf("the second act does not show %q where it should", pattern)
			continue
		}
		rest = rest[at[1]:]
	}
	if after := mustNewest(t); after.Name != before.Name {
		t.Errorf("the newest checkpoint is %s, want %s still: nothing was rendered anew", after.Name, before.Name)
	}
	if pods, err := proxies(t.Context()); err != nil || len(pods) != 2 {
		t.Errorf("proxies %v, error %v, want two", pods, err)
	}
}
