// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	fleettest.AtOnce(4)
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

// patience is how long a test waits for a state. It is reached only if the test fails.
const patience = time.Minute

// bench is a pair of real clusters with a manager in the upstream one, and a namespace of the test in each.
type bench struct {
	tb               testing.TB
	up, down         client.Client
	upNS, downNS     string
	upHost, downHost cluster.Cluster
	manager          ctrl.Manager
	pair             *syncer.Pair
	stop             func()
	sent             atomic.Int64 // writes of the clients that a benchmark counts
	// between is asked about each request of the pair and its caches, which it may change; may be nil.
	between func(*http.Request)
}

// newBench returns a bench whose manager does not run. change changes the options of the pair.
func newBench(t *testing.T, change func(*syncer.PairOptions)) *bench {
	t.Helper()
	clusters := fleettest.Clusters(t, "up", "down")
	b := &bench{tb: t, up: fleettest.Client(t, clusters[0]), down: fleettest.Client(t, clusters[1])}
	b.upNS, b.downNS = fleettest.Namespace(t, b.up, "syncer-"), fleettest.Namespace(t, b.down, "syncer-")
	b.begin(t, change)
	return b
}

// begin makes the manager and the pair, as a new process does.
func (b *bench) begin(t *testing.T, change func(*syncer.PairOptions)) {
	t.Helper()
	b.process(t, ctrl.Options{}, change)
}

// through returns a configuration whose requests pass between.
func (b *bench) through(c *rest.Config) *rest.Config {
	if b.between != nil {
		c = rest.CopyConfig(c)
		c.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return testkit.RoundTrip(func(r *http.Request) (*http.Response, error) {
				r = r.Clone(r.Context())
				b.between(r)
				return next.RoundTrip(r)
			})
		})
	}
	return c
}

// run starts the manager, and stops it at the end of the test or with stop.
func (b *bench) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.manager.Start(ctx) }()
	stopped := false
	b.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the manager ended: %v", err)
		}
	}
	t.Cleanup(func() { b.stop() })
}
