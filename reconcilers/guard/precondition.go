// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// precondition is what decisions are made on: metadata and generation. The resourceVersion would include all reports
// in the status, so the Guards of two conditions would disturb each other. All controllers of one reconcile share it.
//
// Only a removed finalizer counts: its owner has finished, perhaps this package in a reconcile that this one has not
// seen.
type precondition struct {
	generation          int64
	deleting            bool
	labels, annotations map[string]string
	finalizers          []string
	resourceVersion     string
}

func preconditionOf(obj client.Object) *precondition {
	return &precondition{
		generation: obj.GetGeneration(), deleting: !obj.GetDeletionTimestamp().IsZero(),
		labels: maps.Clone(obj.GetLabels()), annotations: maps.Clone(obj.GetAnnotations()),
		finalizers: slices.Clone(obj.GetFinalizers()), resourceVersion: obj.GetResourceVersion(),
	}
}

func (p *precondition) holdsFor(obj client.Object) bool {
	other := preconditionOf(obj)
	if p.generation == 0 { // For kinds without a generation only the resourceVersion shows a change.
		return p.resourceVersion == other.resourceVersion
	}
	return p.generation == other.generation && p.deleting == other.deleting &&
		maps.Equal(p.labels, other.labels) && maps.Equal(p.annotations, other.annotations) &&
		!slices.ContainsFunc(p.finalizers, func(f string) bool { return !slices.Contains(other.finalizers, f) })
}
