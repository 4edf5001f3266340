// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// runner says which replica has the remotes of a test, and in which term.
type runner struct {
	mu   sync.Mutex
	name string
	term int64
}

func (r *runner) move(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.name, r.term = to, r.term+1
}

func (r *runner) gate(replica string) func(registry.ClusterName) (int64, error) {
	return func(registry.ClusterName) (int64, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.name != replica {
			return 0, fmt.Errorf("%w: %s", registry.ErrElsewhere, r.name)
		}
		return r.term, nil
	}
}

// as makes a registry one of several replicas that live and share their holds.
func (r *runner) as(replica string, holds client.ObjectKey) func(*registry.Options) {
	return func(o *registry.Options) {
		o.Holds, o.Replica, o.Gate = holds, replica, r.gate(replica)
		o.Alive = func(string) bool { return true }
	}
}

// A hold moves with its remote from one registry to another that shares the remotes: it is in force before the first delete there,
// shown in the status, and an operator can allow its deletes there. Its entry stays as it was.
func TestDeletes_HoldMoves(t *testing.T) {
	t.Parallel()
	hub := clientFor(t, fleettest.Cluster(t, "hub"))
	key := client.ObjectKey{Namespace: "default", Name: unique("moving-holds")}
	var has runner
	has.move("a")
	first, inFirst, outside := appOf(t, has.as("a", key))
	namespace := objectsOf(t, outside, 30)
	if err := exceed(t, inFirst, namespace); !errors.Is(err, deletes.ErrHeld) {
		t.Fatal(err)
	}
	id := first.HeldDeletes()[0].ID
	second, inSecond, _ := appOf(t, has.as("b", key))
	if err := inSecond.Client.Delete(t.Context(), configMap(namespace, 21)); !errors.Is(err, registry.ErrElsewhere) {
		t.Errorf("a delete in a replica that does not have the remote: %v", err)
	}
	has.move("b")
	var held *deletes.HeldError
	if err := inSecond.Client.Delete(t.Context(), configMap(namespace, 21)); !errors.As(err, &held) || held.ID != id {
		t.Errorf("the first delete in the second replica: %v, want the hold %s", err, id)
	}
	if status, _ := second.Status("one"); !strings.Contains(status.DeletesHeld.Message, id) {
		t.Errorf("the status in the second replica is %+v", status.DeletesHeld)
	}
	eventually(t, func() error { // The upkeep of the first replica drops the hold.
		if status, _ := first.Status("one"); status.DeletesHeld.Reason != "" || len(first.HeldDeletes()) > 0 {
			return fmt.Errorf("the first replica has the holds %+v", first.HeldDeletes())
		}
		return nil
	})
	if err := second.AllowDeletes(t.Context(), "one", id+"=2"); err != nil {
		t.Error(err)
	}
	if n := atOnce(t, 5, func(i int) error { return inSecond.Client.Delete(t.Context(), configMap(namespace, 21+i)) }); n != 2 {
		t.Errorf("%d deletes, want the 2 that are allowed", n)
	}
	var all corev1.ConfigMap
	if err := hub.Get(t.Context(), key, &all); err != nil || !strings.Contains(all.Data["one"], `{"term":2,"holds":{"`+id) ||
		!strings.Contains(all.Data["one"], `"granted":2`) || len(all.Data) != 1 {
		t.Errorf("the ConfigMap has %v, want %s with what is allowed: %v", all.Data, id, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	must(t, second.Remove(ctx, "one"))
	eventually(t, func() error {
		if err := hub.Get(t.Context(), key, &all); err != nil || len(all.Data) > 0 {
			return fmt.Errorf("after the removal of the remote the ConfigMap has %v: %w", all.Data, err)
		}
		return nil
	})
}

// A hold of the hub is in force in the registry to which the remote moves whose app has exceeded the limit, before the first delete there,
// while the first registry lives.
func TestDeletes_HoldOfTheHubMoves(t *testing.T) {
	t.Parallel()
	key := client.ObjectKey{Namespace: "default", Name: unique("moving-holds-hub")}
	var has runner
	has.move("a")
	_, inFirst, _ := appOf(t, has.as("a", key))
	_, inSecond, _ := appOf(t, has.as("b", key))
	inHub := objectsOf(t, clientFor(t, fleettest.Cluster(t, "hub")), 22)
	for i := range 21 {
		if err := inFirst.HubClient.Delete(t.Context(), configMap(inHub, i)); errors.Is(err, deletes.ErrHeld) != (i == 20) {
			t.Fatalf("delete %d: %v", i, err)
		}
	}
	has.move("b")
	testkit.ErrorIs(t, inSecond.HubClient.Delete(t.Context(), configMap(inHub, 21)), deletes.ErrHeld, "the first delete in the second replica")
}
