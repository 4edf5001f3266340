// SPDX-License-Identifier: Apache-2.0

package syncing_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// ends is how often the process of the random test ends.
const ends = 50

// seedOf returns the seed of the random test. It is printed, and CLUSTERFX_SEED sets it.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("CLUSTERFX_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("CLUSTERFX_SEED=%d", seed)
	return seed
}

// random runs three writers against a pair whose process ends at random writes, and whose network fails at random. The seed
// decides the actions of each of them, and not the order in which the API servers see the actions.
func random(t *testing.T, w *world) {
	t.Helper()
	seed := seedOf(t)
	number := func(of uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, of)) }
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	for i := range uint64(3) {
		running.Go(func() { (&writer{world: w, random: number(i)}).run(ctx) })
	}
	for i, p := range w.network {
		running.Go(func() { outages(ctx, t, p, number(uint64(10+i))) })
	}
	dice := number(20)
	atWrite := 0
	for range ends {
		p := w.begin(t, moment{write: 1 + dice.Int64N(20), after: dice.IntN(2) == 0})
		most := time.NewTimer(2 * time.Second) // For a process that an outage keeps from writing.
		select {
		case <-p.ended:
			atWrite++
		case <-most.C:
		}
		p.kill()
	}
	stop()
	running.Wait()
	last := w.begin(t, moment{})
	eventually(t, w.check)
	last.kill()
	s, err := w.read()
	must(t, err)
	copies := 0
	for _, c := range s.copies {
		copies += len(c)
	}
	t.Logf("%d processes ended at a write", atWrite)
	t.Logf("%d originals, %d copies, %d objects downstream, %d originals had conflicts, %d writes", len(s.ups), copies,
		len(s.downs), len(s.conflicts), w.checkWrites())
}

// outages breaks the network to one side from time to time.
func outages(ctx context.Context, t *testing.T, p *fault.Proxy, random *rand.Rand) {
	t.Helper()
	faults := []fault.Fault{
		fault.Refuse(), fault.Reset(), fault.LoseAnswers(), fault.LoseRequests(), fault.Hold(),
		fault.Delay(20*time.Millisecond, 10*time.Millisecond), fault.CutAfter(2000),
	}
	set := func(f fault.Fault, most int) {
		testkit.NoError(t, p.Set(f))
		pause := time.NewTimer(time.Duration(100+random.IntN(most)) * time.Millisecond)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		set(fault.Pass(), 3000)
		set(faults[random.IntN(len(faults))], 400)
	}
	testkit.NoError(t, p.Set(fault.Pass()))
}
