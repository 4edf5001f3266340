// SPDX-License-Identifier: Apache-2.0

package natshub

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/prometheus/client_golang/prometheus"
)

// The alerts take the minimum over the replicas, so a replica exports nothing unless it needs NATS and works: a standby has no
// connection, also if a hub part follows a bucket there.
func TestCollector_ExportsWhileItRuns(t *testing.T) {
	t.Parallel()
	c, err := New(Options{}, Environment{HubID: "hub"})
	testkit.Must(t, err)
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(newCollector(c))
	gathered := func() (names []string) {
		families, err := metrics.Gather()
		testkit.Must(t, err)
		for _, family := range families {
			names = append(names, family.GetName())
		}
		return names
	}
	exports := func() bool { return slices.Contains(gathered(), "clusterfx_nats_connected") }
	if _, err := c.Follow("tenants"); err != nil {
		t.Fatal(err)
	}
	if names := gathered(); len(names) > 0 {
		t.Errorf("before Run, as on a standby: got %v, want none", names)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	testkit.Eventually(t, func() error {
		if !exports() {
			return errors.New("clusterfx_nats_connected is missing while Run runs")
		}
		return nil
	})
	cancel()
	testkit.NoError(t, <-done)
	if names := gathered(); len(names) > 0 {
		t.Errorf("after Run: got %v, want none", names)
	}
}
