// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	var l limits
	for range attemptsPerSecond {
		testkit.Equal(t, l.allow(source{"a", "known"}), true, "an attempt is allowed")
	}
	testkit.Equal(t, l.allow(source{"a", "known"}), false, "one more is allowed")
	for _, other := range []source{{"a", "other"}, {"b", "known"}} {
		testkit.Equal(t, l.allow(other), true, "another agent, or the same at another address, is allowed")
	}
	oldest, end := l.begin(t.Context())
	second, endSecond := l.begin(t.Context())
	for range maxHandshakes - 1 {
		_, end := l.begin(t.Context())
		defer end()
	}
	if err := context.Cause(oldest); !errors.Is(err, errCrowded) {
		t.Errorf("got error %v of the oldest handshake", err)
	}
	must(t, second.Err())
	end()
	endSecond()
	testkit.Equal(t, l.handshakes.Len(), maxHandshakes-1, "the number of handshakes in progress")
}

// Promise: ten wrong handshakes per second from an address keep none of 100 agents at that address out, also not the one whose key they
// name; each is refused and counted.
func TestHub_wrongHandshakes(t *testing.T) {
	t.Parallel()
	fleettest.Slow(t, "./internal/tunnel TestLimits")
	const agents, wrong = 100, 50
	s := newStand(t, nil)
	keys := make([]Key, agents)
	for i := range keys {
		keys[i] = newKey(t)
		s.accept(keys[i], "edge-"+strconv.Itoa(i))
	}
	var attacking sync.WaitGroup
	for _, attack := range []func(context.Context) error{
		func(ctx context.Context) error { return s.agent(newKey(t)).session(ctx, anyReplica, nil) }, // a key that is not accepted
		func(ctx context.Context) error { // the name of an agent's key, and another key
			_, err := s.raw(keys[0]).Write([]byte("no TLS"))
			return err
		},
	} {
		attacking.Go(func() {
			tick := time.NewTicker(time.Second / 10)
			defer tick.Stop()
			for range wrong {
				_ = attack(t.Context())
				<-tick.C
			}
		})
	}
	begin := time.Now()
	for _, key := range keys {
		run(t, s.agent(key))
	}
	eventually(t, func() error {
		if got := s.hub.Agents(); got != agents {
			return fmt.Errorf("%d agents are connected", got)
		}
		return nil
	})
	t.Logf("%d agents connected after %s", agents, time.Since(begin))
	attacking.Wait()
	testkit.Equal(t, s.count(unknown), wrong, "attempts with an unknown key")
	testkit.Equal(t, s.count(failed), wrong, "attempts without the key that they name")
	testkit.Equal(t, s.count(accepted), agents, "accepted attempts")
	testkit.Equal(t, s.count(limited), 0, "limited attempts")
	testkit.Equal(t, s.hub.Agents(), agents, "agents that are still connected")
}
