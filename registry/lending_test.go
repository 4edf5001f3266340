// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"runtime"
	"testing"
	"weak"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// readingClient is a client that keeps what it reads from.
type readingClient struct {
	client.Client
	from client.Reader
}

// The client of leases that an app keeps for a hub part does not keep the life of the hub part that asked for it first.
func TestEpoch_LendTo(t *testing.T) {
	t.Parallel()
	e := &epoch{lendReading: func(from client.Reader) (client.Client, error) { return readingClient{from: from}, nil }}
	e.values.Cache = &appCache{filters: filters{"dns": {{Kind: "Secret"}: nil}}}
	first := func() (client.Client, weak.Pointer[lifetime]) {
		life := &lifetime{}
		lent, err := e.lendTo(&guard{module: "dns", life: life})
		if err != nil {
			t.Fatal(err)
		}
		return lent, weak.Make(life)
	}
	lent, life := first()
	if runtime.GC(); life.Value() != nil {
		t.Error("the life is kept")
	}
	if again, err := e.lendTo(&guard{module: "dns"}); err != nil || again != lent {
		t.Errorf("the next life gets another client: %v", err)
	}
}
