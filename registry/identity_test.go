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
)

func TestRegistry_Identity(t *testing.T) {
	t.Parallel()
	hub := fleettest.Cluster(t, "hub")
	hubID := namespaceUID(t, hub)
	r := newRegistry(t, func(o *registry.Options) { o.AllowDuplicates, o.HubID = false, hubID })
	_, oneConfig := remote(t, "one")
	_, twoConfig := remote(t, "two")
	spawn(t, r, "a", oneConfig)

	if err := r.Ensure("twin", oneConfig); err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	expectState(t, r, "twin", registry.StateFailed, registry.ReasonDuplicate)
	if err := r.Ensure("hub", configFor(t, hub.Kubeconfig())); err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	expectState(t, r, "hub", registry.StateFailed, registry.ReasonIsHub)

	known, _ := r.Info("a")
	twoConfig.Identity.Known = known.ID
	if err := r.Ensure("a", twoConfig); err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	changed := expectState(t, r, "a", registry.StateFailed, registry.ReasonIdentityChanged)
	twoConfig.Identity.Accepted = changed.ID
	if err := r.Ensure("a", twoConfig); err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	expectState(t, r, "a", registry.StateReady, registry.ReasonReady)
	// a is cluster two now, so that one is free for its twin.
	expectState(t, r, "twin", registry.StateReady, registry.ReasonReady)
}

// Two remotes whose Secrets were exchanged, on purpose, do not wait for each other.
func TestRegistry_ExchangedIdentities(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, func(o *registry.Options) { o.AllowDuplicates = false })
	_, oneConfig := remote(t, "one")
	_, twoConfig := remote(t, "two")
	spawn(t, r, "a", oneConfig)
	spawn(t, r, "b", twoConfig)
	a, _ := r.Info("a")
	b, _ := r.Info("b")
	oneConfig.Identity = registry.Identity{Known: b.ID, Accepted: a.ID}
	twoConfig.Identity = registry.Identity{Known: a.ID, Accepted: b.ID}
	for name, config := range map[registry.ClusterName]registry.Config{"a": twoConfig, "b": oneConfig} {
		if err := r.Ensure(name, config); err != nil {
			t.Fatalf("Ensure: %v", err)
		}
	}
	for name, id := range map[registry.ClusterName]string{"a": b.ID, "b": a.ID} {
		eventually(t, func() error {
			if info, _ := r.Info(name); info.State != registry.StateReady || info.ID != id {
				return &stateError{want: registry.StateReady, got: info}
			}
			return nil
		})
	}
}

// A remote that was registered with somebody else's Secret is cured by the right one.
func TestRegistry_RefusedIdentityHeals(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, func(o *registry.Options) { o.AllowDuplicates = false })
	_, oneConfig := remote(t, "one")
	_, twoConfig := remote(t, "two")
	spawn(t, r, "a", oneConfig)
	if err := r.Ensure("b", oneConfig); err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	expectState(t, r, "b", registry.StateFailed, registry.ReasonDuplicate)
	if err := r.Ensure("b", twoConfig); err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	expectState(t, r, "b", registry.StateReady, registry.ReasonReady)
}

func namespaceUID(t *testing.T, c *fleet.Cluster) string {
	t.Helper()
	var ns corev1.Namespace
	if err := clientFor(t, c).Get(t.Context(), client.ObjectKey{Name: "kube-system"}, &ns); err != nil {
		t.Fatalf("get kube-system: %v", err)
	}
	return string(ns.UID)
}

// Of two names for one cluster the one that was registered first runs, in whatever order the hub learns
// of them.
func TestRegistry_TheOlderOfTwoStays(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, func(o *registry.Options) { o.AllowDuplicates = false })
	_, config := remote(t, "one")
	now := time.Now()
	newer, older := config, config
	newer.Since, older.Since = now, now.Add(-time.Hour)
	spawn(t, r, "newer", newer)
	if err := r.Ensure("older", older); err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	expectState(t, r, "older", registry.StateReady, registry.ReasonReady)
	expectState(t, r, "newer", registry.StateFailed, registry.ReasonDuplicate)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.Stop(ctx, "older"); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	expectState(t, r, "newer", registry.StateReady, registry.ReasonReady)
}
