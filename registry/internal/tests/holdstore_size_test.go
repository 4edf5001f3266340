// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/deletions"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/state"
)

// mark is a part of every name of a hold, and of nothing else.
func mark(i int) string { return fmt.Sprintf("n%04d", i) }

// longest returns a hold in which every name is as long as it may be.
func longest(i int) ledger.Held {
	name := func(length int) string { return mark(i) + strings.Repeat("x", length-len(mark(i))) }
	var names []string
	for range 10 {
		names = append(names, name(10)+"/"+name(12))
	}
	return ledger.Held{
		ID: name(63), Module: name(63), Resource: schema.GroupResource{Group: name(253), Resource: name(63)},
		Target: state.ClusterName(name(63)), Fleet: true, Cause: name(128), Replica: name(63), Since: time.Now(), Done: 1_000_000, More: 1_000_000, Names: names,
		Granted: 1_000_000, Used: 1_000_000, Note: strings.Repeat("x", 100),
	}
}

// A thousand holds fit into the ConfigMap.
func TestConfigMap_ThousandHolds(t *testing.T) {
	t.Parallel()
	config := fleettest.Cluster(t, "hub").Config()
	c, err := client.New(config, client.Options{})
	must(t, err)
	key := client.ObjectKey{Namespace: "default", Name: "thousand-holds"}
	s := &deletions.ConfigMapStore{Client: c, Key: key}
	first := longest(0)
	must(t, s.Save(t.Context(), first))
	var all corev1.ConfigMap
	must(t, c.Get(t.Context(), key, &all))
	for i := range 999 {
		name := strings.NewReplacer(mark(0), mark(i))
		all.Data[name.Replace(first.ID)] = name.Replace(all.Data[first.ID])
	}
	if err := c.Update(t.Context(), &all); err != nil {
		t.Fatalf("store 999 holds: %v", err)
	}
	last := longest(999)
	last.Names = []string{"short", strings.Repeat("x", 317), `a<b`}
	if err := s.Save(t.Context(), last); err != nil {
		t.Fatalf("store one hold more: %v", err)
	}
	found, err := s.Load(t.Context())
	if err != nil || len(found.Holds) != 1000 {
		t.Fatalf("got %+v, want 1000 holds: %v", found, err)
	}
	for _, h := range found.Holds {
		if h.ID == last.ID && strings.Join(h.Names, " ") != "short a<b" {
			t.Errorf("the names of a hold are %q, want those that fit", h.Names)
		}
	}
	must(t, s.Remove(t.Context(), last.ID))
	if found, err := s.Load(t.Context()); err != nil || len(found.Holds) != 999 {
		t.Errorf("got %+v, want 999 holds: %v", found, err)
	}
}
