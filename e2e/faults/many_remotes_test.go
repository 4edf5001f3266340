// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// crowd describes remotes to register at once, as names for a few API servers.
type crowd struct {
	n       int
	name    string   // the prefix of their names. Default: crowd
	on      []string // their clusters, in turn
	proxied bool     // the connection to each can be broken
	changes []change
}

// newCrowd registers a crowd, which stays until the end of the test, and does not wait until it is Ready.
func (s *stage) newCrowd(t *testing.T, c crowd) []*remote {
	t.Helper()
	if c.name == "" {
		c.name = "crowd"
	}
	admins := map[string]client.Client{}
	for _, name := range c.on {
		admins[name] = s.clientFor(t, s.cluster(name).Config())
	}
	all := make([]*remote, c.n)
	var registering errgroup.Group
	registering.SetLimit(10)
	for i := range all {
		on := c.on[i%len(c.on)]
		r := &remote{t: t, stage: s, name: fmt.Sprintf("%s-%d", c.name, i), on: s.cluster(on)}
		if c.proxied {
			r.proxy = fleettest.Proxy(t, r.on.Server())
		}
		all[i] = r
		registering.Go(func() error {
			if err := admins[on].Create(t.Context(), namespace(r.name)); err != nil {
				return err
			}
			return r.tryRegister(r.on.Kubeconfig(), c.changes...)
		})
	}
	must(t, registering.Wait())
	return all
}

func countReady(all []*remote) int {
	n := 0
	for _, r := range all {
		if versions, _ := r.stage.history.since(r.name, time.Now()); len(versions) > 0 && isReady(versions[len(versions)-1].cluster) {
			n++
		}
	}
	return n
}

func expectAllReady(t *testing.T, all []*remote) {
	t.Helper()
	eventually(t, func() error {
		if n := countReady(all); n < len(all) {
			return fmt.Errorf("%d of %d remotes are Ready", n, len(all))
		}
		return nil
	})
}

// setAll applies a fault to the connection of every remote, at the same time.
func setAll(all []*remote, f fault.Fault) {
	for _, r := range all {
		r.set(f)
	}
}

func expectAll(all []*remote, expect func(*remote) time.Duration) []time.Duration {
	var took []time.Duration
	for _, r := range all {
		took = append(took, expect(r))
	}
	return took
}
