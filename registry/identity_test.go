// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Promise: nothing runs in a remote that is another cluster than before, until an operator accepts it.
func TestRegistry_Identity(t *testing.T) {
	t.Parallel()
	hub := fleettest.Cluster(t, "hub")
	hubID := namespaceUID(t, hub)
	r := newRegistry(t, func(o *registry.Options) { o.AllowDuplicates, o.HubID = false, hubID })
	_, oneConfig := remote(t, "one")
	_, twoConfig := remote(t, "two")
	spawn(t, r, "a", oneConfig)

	must(t, r.Ensure("twin", oneConfig))
	expectState(t, r, "twin", state.StateFailed, state.ReasonDuplicate)
	itself := configFor(t, hub.Kubeconfig())
	itself.Probe.Period = time.Hour // Nothing but the change itself leads to another probe.
	for _, allowed := range []bool{false, true, false} {
		itself.AllowHub = allowed
		must(t, r.Ensure("hub", itself))
		if allowed {
			expectState(t, r, "hub", state.StateReady, state.ReasonReady)
		} else {
			expectState(t, r, "hub", state.StateFailed, state.ReasonIsHub)
		}
	}

	known, _ := r.Status("a")
	twoConfig.Identity.Known = known.ID
	must(t, r.Ensure("a", twoConfig))
	changed := expectState(t, r, "a", state.StateFailed, state.ReasonIdentityChanged)
	moved := state.Problem{Kind: state.ProblemIdentityChanged, ClusterID: changed.ID}
	if changed.Problem != moved || changed.Identity.Problem != moved {
		t.Errorf("got problem %v, and %v of the identity, want %v", changed.Problem, changed.Identity.Problem, moved)
	}
	twoConfig.Identity.Accepted = changed.ID
	must(t, r.Ensure("a", twoConfig))
	expectState(t, r, "a", state.StateReady, state.ReasonReady)
	// Remote a is cluster two now, so cluster one is free for the twin.
	expectState(t, r, "twin", state.StateReady, state.ReasonReady)
}

// Two remotes whose Secrets were exchanged, on purpose, do not wait for each other.
func TestRegistry_ExchangedIdentities(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, func(o *registry.Options) { o.AllowDuplicates = false })
	_, oneConfig := remote(t, "one")
	_, twoConfig := remote(t, "two")
	spawn(t, r, "a", oneConfig)
	spawn(t, r, "b", twoConfig)
	a, _ := r.Status("a")
	b, _ := r.Status("b")
	oneConfig.Identity = state.Identity{Known: b.ID, Accepted: a.ID}
	twoConfig.Identity = state.Identity{Known: a.ID, Accepted: b.ID}
	for name, config := range map[registry.ClusterName]state.Desired{"a": twoConfig, "b": oneConfig} {
		must(t, r.Ensure(name, config))
	}
	for name, id := range map[registry.ClusterName]string{"a": b.ID, "b": a.ID} {
		eventually(t, func() error {
			if info, _ := r.Status(name); info.State != state.StateReady || info.ID != id {
				return &stateError{want: state.StateReady, got: info}
			}
			return nil
		})
	}
}

func namespaceUID(t *testing.T, c *fleet.Cluster) string {
	t.Helper()
	var ns corev1.Namespace
	if err := clientFor(t, c).Get(t.Context(), client.ObjectKey{Name: "kube-system"}, &ns); err != nil {
		t.Fatalf("get kube-system: %v", err)
	}
	return string(ns.UID)
}

// Of two remotes for the same cluster, the remote that was registered first runs, whichever of them the hub starts
// first. The other remote runs after the first is stopped.
// Promise: of two Clusters for one remote the older one stays.
func TestRegistry_TheOlderOfTwoStays(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][2]registry.ClusterName{
		"the newer starts first": {"newer", "older"},
		"the older starts first": {"older", "newer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t, func(o *registry.Options) { o.AllowDuplicates = false })
			_, config := remote(t, "one")
			now := time.Now()
			since := map[registry.ClusterName]time.Time{"newer": now, "older": now.Add(-time.Hour)}
			config.Since = since[order[0]]
			spawn(t, r, order[0], config)
			config.Since = since[order[1]]
			must(t, r.Ensure(order[1], config))
			expectState(t, r, "newer", state.StateFailed, state.ReasonDuplicate)
			older := expectState(t, r, "older", state.StateReady, state.ReasonReady)
			if order[0] == "older" && older.Epoch != 1 {
				t.Errorf("got epoch %d of the older remote, want 1: its app keeps running", older.Epoch)
			}

			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			must(t, r.Stop(ctx, "older"))
			expectState(t, r, "newer", state.StateReady, state.ReasonReady)
		})
	}
}

// A remote whose cluster the operator accepts, although another remote is that cluster, is found to be a duplicate at once.
func TestRegistry_AcceptedDuplicate(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, func(o *registry.Options) { o.AllowDuplicates = false })
	_, config := remote(t, "one")
	spawn(t, r, "a", config)
	a, _ := r.Status("a")
	config.Probe.Period = time.Hour // Nothing but the change itself leads to another probe.
	config.Identity.Known = "another"
	must(t, r.Ensure("b", config))
	expectState(t, r, "b", state.StateFailed, state.ReasonIdentityChanged)
	config.Identity.Accepted = a.ID
	must(t, r.Ensure("b", config))
	expectState(t, r, "b", state.StateFailed, state.ReasonDuplicate)
}
