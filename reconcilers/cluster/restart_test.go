// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"testing"
	"time"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/modules"
)

func TestCluster_RestartOfTheHub(t *testing.T) {
	t.Parallel()
	const count = 20
	h := newHub(t, func(o *hubOptions) { o.modules = modules.All() })
	kubeconfigs := [][]byte{fleettest.Cluster(t, "one").Kubeconfig(), fleettest.Cluster(t, "hub").Kubeconfig()}
	var names []string
	for i := range count {
		name := h.name(fmt.Sprintf("c%d", i))
		names = append(names, name)
		h.putKubeconfig(name, kubeconfigs[i%len(kubeconfigs)])
		h.newCluster(name, nil)
	}
	// While the hub is stopped, one Cluster loses its Secret, and another Cluster is deleted.
	orphan, deleted := names[18], names[19]
	before := map[string]*hubv1.Cluster{}
	for _, name := range names {
		before[name] = h.expectReady(name)
	}
	h.stop()
	h.deleteSecret(orphan)
	h.remove(deleted)
	began := time.Now()
	h.start()
	for _, name := range names[:18] {
		h.expectRunning(name)
	}
	t.Logf("all apps run %s after the start", time.Since(began))
	h.expect(orphan, hubv1.ConditionReady, "False", hubv1.ReasonSecretNotFound)
	h.expectGone(deleted)
	for _, name := range names[:18] {
		after := h.expectReady(name)
		if after.Generation != before[name].Generation || after.UID != before[name].UID {
			t.Errorf("%s: got generation %d, want %d", name, after.Generation, before[name].Generation)
		}
	}
}
