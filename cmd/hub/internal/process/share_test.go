// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// The registry of a replica asks the fleet: without a Lease that may write to no remote, and holds no other replica for dead.
func TestShare_Adopt(t *testing.T) {
	t.Parallel()
	o, err := Options{Config: &rest.Config{}, Registry: registry.Options{Replica: "hub-0"}}.withDefaults()
	must(t, err)
	s, err := newShare(t.Context(), o, nil, nil)
	must(t, err)
	adopted := hubOptions{Options: o}
	s.adopt(&adopted)
	testkit.ErrorIs(t, testkit.Err(adopted.Registry.Gate("unknown")), registry.ErrNotFound, "the gate of an unknown name")
	testkit.Equal(t, adopted.Registry.Alive("hub-1"), true, "another replica may be alive")
	testkit.Equal(t, adopted.Registry.Overloaded(), false, "it is not late before it runs")
	if adopted.once == nil || adopted.withRemotes == nil {
		t.Error("it has no turns")
	}
}
