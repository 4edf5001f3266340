// SPDX-License-Identifier: Apache-2.0

package syncing_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// Pairs have neighbours and many objects, and API servers reject and change their copies.
func TestHard(t *testing.T) {
	all := clusters(t, "up", "down")
	t.Run("neighbours", func(t *testing.T) { neighbours(t, all) })
	t.Run("nested tenants", func(t *testing.T) { nestedTenants(t, all) })
	t.Run("many objects", func(t *testing.T) { manyObjects(t, all) })
	t.Run("no status subresource", func(t *testing.T) { noStatusSubresource(t, all) })
	t.Run("rejecting webhook", func(t *testing.T) { rejected(t, all) })
	t.Run("mutating webhook", func(t *testing.T) { mutated(t, all) })
}

// neighbours are two pairs that copy into one namespace, with tenants whose copies have equal names in the scheme of vcluster.
// Changes of the objects of one pair do not affect the copies of the other pair.
func neighbours(t *testing.T, all []*fleet.Cluster) {
	t.Helper()
	t.Parallel()
	one := newWorldOf(t, all, setting{
		namespaces: []string{"n"}, target: "shared", oneToOne: true, identity: syncer.Identity{Tenant: "b-x-c"},
	})
	two := newWorldOf(t, all, setting{
		namespaces: []string{"b"}, target: "shared", oneToOne: true, identity: syncer.Identity{Tenant: "c"},
	})
	a, b := one.original(0, "a"), two.original(0, "a-x-n") // Both would be a-x-n-x-b-x-c.
	must(t, errors.Join(one.people[above].Create(t.Context(), a.DeepCopy()), two.people[above].Create(t.Context(), b.DeepCopy())))
	p, q := one.begin(t, moment{}), two.begin(t, moment{})
	both := func() error { return errors.Join(one.check(), two.check()) }
	eventually(t, both)
	before := two.onlyCopy(b)
	must(t, one.people[above].Patch(t.Context(), a.DeepCopy(), merge(`{"data":{"k":"2"}}`)))
	eventually(t, both)
	must(t, one.people[above].Delete(t.Context(), a.DeepCopy()))
	eventually(t, both)
	must(t, one.people[above].Create(t.Context(), a.DeepCopy()))
	eventually(t, both)
	if after := two.onlyCopy(b); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the copy of the other pair has changed: %s, before it was %s", short(after), short(before))
	}
	p.kill()
	q.kill()
	one.checkWrites()
	two.checkWrites()
}

// onlyCopy returns the copy of an original.
func (w *world) onlyCopy(up *corev1.ConfigMap) *corev1.ConfigMap {
	w.t.Helper()
	s, err := w.read()
	must(w.t, err)
	copies := s.copies[client.ObjectKeyFromObject(up)]
	if len(copies) != 1 {
		w.t.Fatalf("%s has %d copies, want one", up.Name, len(copies))
	}
	return copies[0]
}

// nestedTenants are two pairs, of which the second one copies the copies of the first one, back into the first cluster.
func nestedTenants(t *testing.T, all []*fleet.Cluster) {
	t.Helper()
	t.Parallel()
	outer := newWorldOf(t, all, setting{
		namespaces: []string{"na"}, target: "nb", oneToOne: true, identity: syncer.Identity{Tenant: "outer"},
	})
	inner := newWorldOf(t, []*fleet.Cluster{all[below], all[above]}, setting{
		namespaces: []string{"nb"}, target: "nc", oneToOne: true, identity: syncer.Identity{Tenant: "inner"},
	})
	p, q := outer.begin(t, moment{}), inner.begin(t, moment{})
	up := outer.original(0, "a")
	up.Labels = map[string]string{"app": "nested"}
	must(t, outer.people[above].Create(t.Context(), up.DeepCopy()))
	last := func(k string) func() error {
		return func() error {
			var found corev1.ConfigMapList
			err := inner.people[below].List(t.Context(), &found, client.InNamespace("nc"), client.MatchingLabels{"app": "nested"})
			if err == nil && (len(found.Items) != 1 || found.Items[0].Data["k"] != k) {
				err = fmt.Errorf("the last copies are %v, want one with k=%s", found.Items, k)
			}
			return errors.Join(err, outer.check(), inner.check())
		}
	}
	eventually(t, last("1"))
	must(t, outer.people[above].Patch(t.Context(), up.DeepCopy(), merge(`{"data":{"k":"2"}}`)))
	eventually(t, last("2"))
	// The copy in the middle is deleted, and so made again, and with it the last one.
	must(t, outer.people[below].Delete(t.Context(), outer.onlyCopy(up)))
	eventually(t, last("2"))
	must(t, outer.people[above].Delete(t.Context(), up.DeepCopy()))
	eventually(t, func() error {
		s, err := inner.read()
		if err == nil && len(s.ups)+len(s.downs) > 0 {
			err = fmt.Errorf("%d objects are left in the middle, and %d at the end", len(s.ups), len(s.downs))
		}
		return errors.Join(err, outer.check(), inner.check())
	})
	p.kill()
	q.kill()
	outer.checkWrites()
	inner.checkWrites()
}

// counted is a Syncer that knows which objects it has reconciled.
type counted struct {
	syncer.Copy[*corev1.ConfigMap]
	mu   sync.Mutex // protects the map
	seen map[reconcile.Request]bool
}

func (c *counted) ReconcileStart(context.Context, reconcile.Request) (bool, error) { return false, nil }

func (c *counted) ReconcileEnd(_ context.Context, r reconcile.Request, _ reconcile.Result, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.seen[r] = true
	}
}

func (c *counted) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// manyObjects copies many objects, and restarts the process: it sends no write to any side.
func manyObjects(t *testing.T, all []*fleet.Cluster) {
	t.Helper()
	t.Parallel()
	many := 1000
	if everything() {
		many = 10_000
	}
	w := newWorldOf(t, all, setting{
		namespaces: []string{"many"}, target: "many-copies", oneToOne: true, identity: syncer.Identity{Tenant: "many"},
	})
	w.fill(t, many)
	first := w.begin(t, moment{})
	eventually(t, func() error {
		var found metav1.PartialObjectMetadataList
		found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
		err := w.people[below].List(t.Context(), &found, client.InNamespace(w.target))
		if err == nil && len(found.Items) != many {
			err = fmt.Errorf("there are %d copies", len(found.Items))
		}
		return err
	})
	eventually(t, w.check)
	first.kill()
	restart := time.Now()
	c := &counted{Copy: syncer.Copy[*corev1.ConfigMap]{Called: "configmaps"}, seen: map[reconcile.Request]bool{}}
	w.register = func(p *syncer.Pair) error {
		return syncer.Register(p, c, syncer.NewNamespaced[*corev1.ConfigMap](p.Identity(), syncer.TranslatorOptions{}),
			syncer.Options[*corev1.ConfigMap]{Select: isSelected})
	}
	second := w.begin(t, moment{})
	eventually(t, func() error {
		if n := c.count(); n < many {
			return fmt.Errorf("%d objects have been reconciled", n)
		}
		return nil
	})
	second.kill()
	for _, side := range all {
		writes, err := side.AuditEvents(fleet.ByAgent(w.agent()), fleet.Since(restart), fleet.AuditEvent.Writes)
		must(t, err)
		if len(writes) > 0 {
			t.Errorf("the new process sent %d writes to %s, such as %s", len(writes), side.Name(), writes[0])
		}
	}
}

// fill creates originals.
func (w *world) fill(t *testing.T, many int) {
	t.Helper()
	next := make(chan int)
	var filling sync.WaitGroup
	for range 8 {
		filling.Go(func() {
			for i := range next {
				if err := w.people[above].Create(t.Context(), w.original(0, fmt.Sprintf("o-%d", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range many {
		next <- i
	}
	close(next)
	filling.Wait()
}
