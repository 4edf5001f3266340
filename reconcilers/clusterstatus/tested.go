// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry/state"
)

// OldestKubernetes and NewestKubernetes are the first and the last minor version of Kubernetes that the hub is tested with, as
// a remote and as its own cluster.
const (
	OldestKubernetes = "1.30"
	NewestKubernetes = "1.37"
)

// IsTested reports whether the hub is tested with the minor version of an API server, such as v1.36.3.
func IsTested(found string) bool {
	actual, err := version.ParseGeneric(found)
	if err != nil {
		return false
	}
	oldest, newest := version.MustParseGeneric(OldestKubernetes), version.MustParseGeneric(NewestKubernetes)
	return actual.AtLeast(oldest) && actual.LessThan(newest.OffsetMinor(1))
}

// versionTold names the version of a remote that responds, where nobody has tested it. Nothing else depends on it.
func versionTold(reachable state.Condition, found string) state.Condition {
	if reachable.Status != metav1.ConditionTrue || reachable.Reason != hubv1.ReasonProbeSucceeded || found == "" || IsTested(found) {
		return reachable
	}
	reachable.Reason = hubv1.ReasonVersionUntested
	reachable.Message = fmt.Sprintf("The remote responds; it runs Kubernetes %s, and this hub is tested with %s to %s",
		found, OldestKubernetes, NewestKubernetes)
	return reachable
}
