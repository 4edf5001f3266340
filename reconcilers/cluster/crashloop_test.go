// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// An app that fails repeatedly makes its Cluster Stalled, and the message names the failing module.
func TestCluster_ThatFailsAgainAndAgain(t *testing.T) {
	t.Parallel()
	broken := hooked("broken", func(context.Context) error { return errors.New("it is broken") }, nil, nil)
	h := newHub(t, func(o *hubOptions) { o.modules = []registry.Module{broken, idle("sound")} })
	name := h.name("a")
	h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(name, nil)
	c := h.expect(name, hubv1.ConditionReady, metav1.ConditionFalse, hubv1.ReasonStartFailed)
	expectCondition(t, c, hubv1.ConditionReconciling, metav1.ConditionTrue) // The first failures are retried.
	c = h.expect(name, hubv1.ConditionStalled, metav1.ConditionTrue, hubv1.ReasonStartFailed)
	for _, kind := range []string{hubv1.ConditionStalled, hubv1.ConditionReady} {
		if message := meta.FindStatusCondition(c.Status.Conditions, kind).Message; !strings.Contains(message, `"broken"`) {
			t.Errorf("the message of %s does not name the module: %s", kind, message)
		}
	}
	h.change(name, func(c *hubv1.Cluster) { c.Spec.Modules = []string{"sound"} })
	h.expectReady(name)
}
