// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// basis is the part of an object on which decisions are made: the metadata and the generation, not the reports in the
// status. The resourceVersion would include too much: it changes with every report, so the Guards of two conditions
// would disturb each other. All controllers of one reconcile share the basis.
//
// Only the removal of a finalizer counts. It shows that the owner of the finalizer has finished: perhaps this package,
// in a reconcile that this reconcile has not seen. An added finalizer changes no decision.
type basis struct {
	generation          int64
	deleting            bool
	labels, annotations map[string]string
	finalizers          []string
	resourceVersion     string
}

func basisOf(obj client.Object) *basis {
	return &basis{
		generation: obj.GetGeneration(), deleting: !obj.GetDeletionTimestamp().IsZero(),
		labels: maps.Clone(obj.GetLabels()), annotations: maps.Clone(obj.GetAnnotations()),
		finalizers: slices.Clone(obj.GetFinalizers()), resourceVersion: obj.GetResourceVersion(),
	}
}

// isThatOf reports whether the basis of an object is still the same.
func (b *basis) isThatOf(obj client.Object) bool {
	other := basisOf(obj)
	if b.generation == 0 { // For kinds without a generation only the resourceVersion shows a change.
		return b.resourceVersion == other.resourceVersion
	}
	return b.generation == other.generation && b.deleting == other.deleting &&
		maps.Equal(b.labels, other.labels) && maps.Equal(b.annotations, other.annotations) &&
		!slices.ContainsFunc(b.finalizers, func(f string) bool { return !slices.Contains(other.finalizers, f) })
}
