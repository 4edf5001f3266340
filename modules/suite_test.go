// SPDX-License-Identifier: Apache-2.0

package modules_test

import (
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/inventory"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

func TestMain(m *testing.M) { os.Exit(hubtest.Main(m)) }

// inventoryHub is a hub and a remote that runs the module.
type inventoryHub struct {
	*hubtest.Remote
	t   testing.TB
	hub *hubtest.Hub

	mu      sync.Mutex // protects written
	written []writing
}

// writing is an inventory, and the time when it was first seen on the hub.
type writing struct {
	inventory string
	at        time.Time
}

// newInventoryHub starts a hub whose module has its declared permissions, and a remote that is not registered yet.
func newInventoryHub(t testing.TB) *inventoryHub {
	t.Helper()
	hub := hubtest.New(t, hubtest.Modules(inventory.Module),
		hubtest.Rules(rbac.RemoteRules(inventory.Module)...))
	s := &inventoryHub{t: t, hub: hub, Remote: hub.NewRemote("edge")}
	s.record()
	return s
}

// record starts to record every inventory of the Cluster.
func (s *inventoryHub) record() {
	s.t.Helper()
	fleettest.Watch(s.t, fleettest.Watched{Client: s.hub.Client(), List: &hubv1.ClusterList{}}, func(o client.Object) {
		if c, ok := o.(*hubv1.Cluster); ok {
			s.note(text(c.Status.Inventory))
		}
	})
}

func (s *inventoryHub) note(inventory string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.written); n == 0 || s.written[n-1].inventory != inventory {
		s.written = append(s.written, writing{inventory, time.Now()})
	}
}

// history returns the recorded inventories.
func (s *inventoryHub) history() []writing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.written)
}

func (s *inventoryHub) must(err error) {
	s.t.Helper()
	testkit.Must(s.t, err)
}

func (s *inventoryHub) addNode(name string, ready corev1.ConditionStatus) {
	s.t.Helper()
	s.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	s.changeNode(name, func(n *corev1.Node) {
		n.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	})
}

func (s *inventoryHub) setReady(name string, ready corev1.ConditionStatus) {
	s.t.Helper()
	s.changeNode(name, func(n *corev1.Node) { n.Status.Conditions[0].Status = ready })
}

func (s *inventoryHub) changeNode(name string, f func(*corev1.Node)) {
	s.t.Helper()
	s.Eventually(func() error {
		var node corev1.Node
		s.must(s.Client().Get(s.t.Context(), client.ObjectKey{Name: name}, &node))
		f(&node)
		return s.Client().Status().Update(s.t.Context(), &node)
	})
}
