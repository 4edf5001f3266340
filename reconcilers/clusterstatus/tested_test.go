// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
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
		valid := Credentials{Valid: state.Condition{Status: metav1.ConditionTrue, Reason: hubv1.ReasonValid}}
		s := stepsOf(&hubv1.Cluster{}, valid, info)
		if s.reachable.Reason != want || s.reachable.Status != metav1.ConditionTrue || s.ready().Status != metav1.ConditionTrue {
			t.Errorf("%q: Reachable is %+v and Ready %+v, want %s", version, s.reachable, s.ready(), want)
		}
		if want == hubv1.ReasonVersionUntested && !strings.Contains(s.reachable.Message, "1.30 to 1.37") {
			t.Errorf("%q: the message %q has no range", version, s.reachable.Message)
		}
	}
}
