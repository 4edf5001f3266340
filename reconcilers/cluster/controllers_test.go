// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// The status names the controllers of every module, and the reason and advice of a controller that does not run.
// Becoming Ready is one write: the first status that is Ready reports that every controller runs.
func TestCluster_StatusNamesControllers(t *testing.T) {
	t.Parallel()
	remote := fleettest.Cluster(t, "one")
	h := newHub(t, func(o *hubOptions) { o.modules = []registry.Module{undeclared(), idle("other")} })
	name := h.name("a")
	h.putKubeconfig(name, withRights(t, remote, "controllers", withoutNodes))
	h.newCluster(name, nil)
	h.expect(name, hubv1.ConditionModulesReady, metav1.ConditionFalse, hubv1.ReasonForbidden)
	expect := func(state hubv1.ModuleState, reason, says string) {
		h.eventually(func() error {
			modules := h.get(name).Status.Modules
			at := slices.IndexFunc(modules, func(m hubv1.ModuleStatus) bool { return m.Name == "undeclared" })
			if at < 0 || len(modules[at].Controllers) != 1 || len(modules[1-at].Controllers) != 0 {
				return fmt.Errorf("got modules %+v, want one controller, in the module undeclared", modules)
			}
			one := modules[at].Controllers[0]
			if one.Name != "undeclared" || one.State != state || one.Reason != reason || !strings.Contains(one.Message, says) {
				return fmt.Errorf("got controller %+v, want another state, reason or message", one)
			}
			return nil
		})
	}
	expect(hubv1.ModuleWaiting, hubv1.ReasonForbidden, `module undeclared does not declare "list and watch nodes" in its Rules`)
	versions := h.versionsOf(name)
	withRights(t, remote, "controllers", everything)
	h.expectReady(name)
	expect(hubv1.ModuleRunning, "", "")
	for _, c := range versions() {
		if !meta.IsStatusConditionTrue(c.Status.Conditions, hubv1.ConditionReady) {
			continue
		}
		for _, m := range c.Status.Modules {
			for _, one := range m.Controllers {
				if m.State != hubv1.ModuleRunning || one.State != hubv1.ModuleRunning {
					t.Errorf("the Cluster is Ready while a controller does not run: %+v", m)
				}
			}
		}
		break
	}
}

// versionsOf watches a Cluster, and returns a function that ends the watch and returns the versions.
func (h *hub) versionsOf(name string) func() []hubv1.Cluster {
	h.t.Helper()
	var seen []hubv1.Cluster
	stop := h.watch(name, func(c *hubv1.Cluster) { seen = append(seen, *c) })
	return func() []hubv1.Cluster {
		stop()
		return seen
	}
}
