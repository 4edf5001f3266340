// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterfx/clusterfx/registry/internal/compact"
	"github.com/clusterfx/clusterfx/registry/internal/informer"
)

// counting counts how often objects are unpacked.
type counting struct {
	*compact.Types
	unpacked atomic.Int64
}

func (c *counting) Unpack(obj any) any {
	if _, packed := obj.(*compact.Object); packed {
		c.unpacked.Add(1)
	}
	return c.Types.Unpack(obj)
}

// newPacked returns an informer with a store of packed objects.
func newPacked(t *testing.T, s *server) (*informer.Informer, *counting) {
	t.Helper()
	i, packing := newInformer(s, 0), &counting{Types: compact.NewTypes()}
	if err := i.SetPacking(packing); err != nil {
		t.Fatalf("SetPacking: %v", err)
	}
	return i, packing
}

// The store has packed objects. A new object is not unpacked for handlers and indexes, and the object that it
// replaces is unpacked once for all indexes.
func TestInformer_Packed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put("a")
		i, packing := newPacked(t, s)
		for name := range byVersion() {
			for _, one := range []string{name, name + "-again"} {
				if err := i.AddIndexers(cache.Indexers{one: byVersion()[name]}); err != nil {
					t.Fatalf("AddIndexers: %v", err)
				}
			}
		}
		add(t, i, &record{})
		run(t, i)
		synctest.Wait()
		s.put("b")
		synctest.Wait()
		if n := packing.unpacked.Load(); n != 0 {
			t.Errorf("%d objects were unpacked that had just arrived", n)
		}
		s.put("a")
		synctest.Wait()
		if n := packing.unpacked.Load(); n != 1 {
			t.Errorf("an update unpacked %d objects, want the older one", n)
		}
		for _, obj := range i.GetStore().List() {
			if _, packed := obj.(*compact.Object); !packed {
				t.Errorf("the store has a %T", obj)
			}
		}
		if err := i.SetPacking(packing); err == nil {
			t.Error("the packing can be changed after the start")
		}
	})
}

// The namespace index needs no objects.
func TestInformer_PackedNamespaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put("a")
		i, packing := newPacked(t, s)
		if err := i.AddIndexers(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}); err != nil {
			t.Fatalf("AddIndexers: %v", err)
		}
		run(t, i)
		synctest.Wait()
		s.put("a")
		synctest.Wait()
		found, err := i.GetIndexer().ByIndex(cache.NamespaceIndex, metav1.NamespaceDefault)
		if err != nil || len(found) != 1 || packing.unpacked.Load() != 0 {
			t.Errorf("got %d objects and %v, and %d were unpacked", len(found), err, packing.unpacked.Load())
		}
		if one, ok := packing.Unpack(found[0]).(*corev1.ConfigMap); !ok || one.ResourceVersion != "2" {
			t.Errorf("the object is %+v", one)
		}
	})
}
