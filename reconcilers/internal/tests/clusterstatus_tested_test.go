// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Promise: a remote of a version outside of the tested range runs, and its Cluster says so.
func TestStatus_versionUntested(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.29.15": hubv1.ReasonVersionUntested, "v1.30.0": hubv1.ReasonProbeSucceeded, "v1.30.4-eks-1a2b3c": hubv1.ReasonProbeSucceeded,
		"v1.37.99+k3s1": hubv1.ReasonProbeSucceeded, "v1.38.0-alpha.1": hubv1.ReasonVersionUntested, "v2.0.0": hubv1.ReasonVersionUntested,
		"dev": hubv1.ReasonVersionUntested, "": hubv1.ReasonProbeSucceeded,
	} {
		reachable := state.Condition{Status: metav1.ConditionTrue, Reason: hubv1.ReasonProbeSucceeded}
		running := state.Condition{Status: metav1.ConditionTrue, Reason: hubv1.ReasonRunning}
		identity := state.Condition{Status: metav1.ConditionTrue, Reason: hubv1.ReasonSameCluster}
		info := registry.Status{Reachable: reachable, Identity: identity, App: running, Version: version, State: state.StateReady}
		valid := clusterstatus.Credentials{Valid: state.Condition{Status: metav1.ConditionTrue, Reason: hubv1.ReasonValid}}
		all := clusterstatus.Of(&hubv1.Cluster{}, valid, info).Conditions
		found := meta.FindStatusCondition(all, hubv1.ConditionReachable)
		if found.Reason != want || found.Status != metav1.ConditionTrue || !meta.IsStatusConditionTrue(all, hubv1.ConditionReady) {
			t.Errorf("%q: the conditions are %+v, want %s", version, all, want)
		}
		if want == hubv1.ReasonVersionUntested && !strings.Contains(found.Message, "1.30 to 1.37") {
			t.Errorf("%q: the message %q has no range", version, found.Message)
		}
	}
}
