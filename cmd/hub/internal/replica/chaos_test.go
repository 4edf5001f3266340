// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/e2e/fault"
)

// Three replicas live through faults that are drawn at random. No two gates of a shard are open at a time, and when the
// faults end, the replicas share the shards again.
func TestReplica_RandomFaults(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &chaos{
		world: newWorld(t, fewShards), rng: rand.New(rand.NewPCG(seed, 0)), running: map[string]*process{},
	}
	for _, name := range c.names() {
		c.startOne(name)
	}
	for range 15 {
		c.step()
		<-time.After(time.Duration(c.rng.Int64N(int64(1500 * time.Millisecond))))
	}
	var all []*process
	for _, p := range c.running {
		p.set(fault.Pass())
		p.stuck.Store(false)
		all = append(all, p)
	}
	c.world.expectShared(all...)
}

// chaos draws faults.
type chaos struct {
	world   *world
	rng     *rand.Rand
	running map[string]*process
}

func (c *chaos) names() []string { return []string{"a", "b", "c"} }

func (c *chaos) startOne(name string) {
	c.running[name] = c.world.start(name, func(o *Options) { o.LeaveTimeout = 2 * o.Timing.Duration })
}

func (c *chaos) step() {
	w := c.world
	name := c.names()[c.rng.IntN(len(c.names()))]
	p := c.running[name]
	switch c.rng.IntN(8) {
	case 0, 1, 2:
		faults := []fault.Fault{
			fault.Refuse(), fault.Blackhole(), fault.LoseAnswers(), fault.LoseRequests(), fault.Hold(), fault.Reset(),
			fault.Delay(400*time.Millisecond, 300*time.Millisecond),
		}
		f := faults[c.rng.IntN(len(faults))]
		w.t.Logf("%s: %s", name, f)
		p.set(f)
	case 3:
		w.t.Logf("%s: pass", name)
		p.set(fault.Pass())
	case 4:
		w.t.Logf("the Lease of %s is deleted", name)
		_ = w.leases().Delete(w.t.Context(), name, metav1.DeleteOptions{})
	case 5:
		p.stuck.Store(!p.stuck.Load())
		w.t.Logf("%s stands still: %t", name, p.stuck.Load())
	case 6:
		w.t.Logf("%s restarts: %v", name, p.end())
		c.startOne(name)
	case 7:
		incarnation := []string{"", "an-administrator"}[c.rng.IntN(2)]
		w.t.Logf("the Lease of %s gets the incarnation %q", name, incarnation)
		if w.hasLease(name) {
			w.overwriteLease(name, incarnation)
		}
	}
}
