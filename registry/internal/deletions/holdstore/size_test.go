// SPDX-License-Identifier: Apache-2.0

package holdstore

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestMain(m *testing.M) { os.Exit(fleettest.Main(m, fleettest.NoLeaks())) }

// longest returns a hold in which every name is as long as it may be.
func longest(i int) ledger.Hold {
	name := func(length int) string { return fmt.Sprintf("%05d", i) + strings.Repeat("x", length-5) }
	var names []string
	for range 10 {
		names = append(names, name(10)+"/"+name(12))
	}
	return ledger.Hold{
		ID: name(63), Module: name(63), Resource: schema.GroupResource{Group: name(253), Resource: name(63)},
		Target: state.ClusterName(name(63)), Fleet: true, Replica: name(63), Since: time.Now(), Done: 1_000_000, More: 1_000_000, Names: names,
		Granted: 1_000_000, Used: 1_000_000,
	}
}

// A thousand holds fit into the ConfigMap.
func TestConfigMap_ThousandHolds(t *testing.T) {
	t.Parallel()
	data := map[string]string{}
	size := 0
	for i := range 999 {
		h := longest(i)
		text, err := json.Marshal(entryOf(h))
		if err != nil {
			t.Fatal(err)
		}
		data[h.ID] = string(text)
		size += len(h.ID) + len(text)
	}
	t.Logf("999 holds take %d bytes", size)
	config := fleettest.Cluster(t, "hub").Config()
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: "default", Name: "holds"}
	all := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: data}
	if err := c.Create(t.Context(), all); err != nil {
		t.Fatalf("create the ConfigMap: %v", err)
	}
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), all) }) // The next run makes it again.
	s := &ConfigMap{Client: c, Key: key}
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
	if err := s.Remove(t.Context(), last.ID); err != nil {
		t.Fatal(err)
	}
	if found, err := s.Load(t.Context()); err != nil || len(found.Holds) != 999 {
		t.Errorf("got %+v, want 999 holds: %v", found, err)
	}
}
