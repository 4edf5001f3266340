// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"testing"

	"go.uber.org/fx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/guard"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/registry"
)

// The objects of a deregistered remote lose their finalizers. Their locks remain and record the external resources.
func TestCleanup_LetsObjectsGo(t *testing.T) {
	t.Parallel()
	// The hub is its own remote, which saves an API server. The app watches all namespaces, and handles one.
	cluster, s := fleettest.Cluster(t, "hub"), newServer(t)
	var c cloud
	o := inStatus()
	o.Name = "farewell"
	r := servertest.NewRegistry(t, cluster.Config(), registry.Options{Scheme: fleettest.Scheme(t, addTunnels), Modules: []registry.Module{
		registry.NewModule("tunnels", registry.ModuleOptions{Remote: fx.Options(
			guard.Module(o),
			guard.AsFactory[*Tunnel](o.Name, func() factory {
				f := digs(&process{}, &c)
				f.Handles = func(t *Tunnel) bool { return t.Namespace == s.Namespace }
				return f
			}),
		)}),
	}})
	servertest.Spawn(t, r, "edge", cluster.Kubeconfig())
	s.Make("a")
	s.expectSoon("a", metav1.ConditionTrue, "Completed")
	testkit.Equal(t, s.Read("a").Finalizers, []string{guard.Prefix + o.Name}, "finalizers")
	servertest.Remove(t, r, "edge")
	left := s.Read("a")
	if len(left.Finalizers) > 0 || len(left.Status.Locks) != 1 || left.Status.Locks[0].Settled != "Completed" {
		t.Errorf("after the removal: got finalizers %v, status %+v", left.Finalizers, left.Status)
	}
	s.Remove("a")
	s.ExpectGone("a")
	testkit.Equal(t, c.left(), 1, "tunnels")
}
