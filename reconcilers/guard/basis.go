// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// basis is what of an object decisions are made on: what it says, not what others report about it. The
// resourceVersion is too much of that. It changes with every report, so a guard of one condition would get in the
// way of that of another. All controllers of one reconcile share it.
//
// Of the finalizers it is those that were there. One that is gone says that its owner has finished: perhaps this
// package, in a reconcile that this one has not seen. One that was added changes no decision.
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

// isThatOf reports whether an object still says the same.
func (b *basis) isThatOf(obj client.Object) bool {
	other := basisOf(obj)
	if b.generation == 0 { // Kinds without a generation have nothing else to tell by.
		return b.resourceVersion == other.resourceVersion
	}
	return b.generation == other.generation && b.deleting == other.deleting &&
		maps.Equal(b.labels, other.labels) && maps.Equal(b.annotations, other.annotations) &&
		!slices.ContainsFunc(b.finalizers, func(f string) bool { return !slices.Contains(other.finalizers, f) })
}
