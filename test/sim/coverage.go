package sim

import (
	"github.com/holdfast-project/holdfast/pkg/checkpoint"
	"github.com/holdfast-project/holdfast/test/fakeapi"
)

// Coverage counts what happened in schedules. A simulation in which something
// hardly ever happens says little about it.
type Coverage struct {
	Claims, Intents, Loads, Recoveries, Promotions, Collected int
}

// Add sums two.
func (c *Coverage) Add(o Coverage) {
	c.Claims += o.Claims
	c.Intents += o.Intents
	c.Loads += o.Loads
	c.Recoveries += o.Recoveries
	c.Promotions += o.Promotions
	c.Collected += o.Collected
}

// counter makes a schedule's Coverage.
type counter struct {
	sees
	leases   *leaseHistory
	pointers *pointerChecker
	Coverage
	claim, plan string
	newest      checkpoint.Pointer
}

func (c *counter) changed(change fakeapi.Change) {
	intent := c.leases.intent()
	if intent.Claim != c.claim {
		c.Claims++
	} else if intent.PlanID != c.plan {
		c.Intents++
	}
	c.claim, c.plan = intent.Claim, intent.PlanID
	if newest := c.pointers.newest(); newest != c.newest {
		c.newest = newest
		c.Promotions++
	}
	if _, child := childResources[change.GVR.Resource]; child && change.Type == "DELETED" {
		c.Collected++
	}
}

func (c *counter) loaded(l load) {
	c.Loads++
	if l.token.RenderSeq == 0 {
		c.Recoveries++
	}
}
