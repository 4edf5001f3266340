// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// A pair that excludes all labels and annotations keeps the marks of its copies, and so deletes a copy with its original.
func TestExclude_KeepsMarks(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.copies(t, syncer.Options[*corev1.ConfigMap]{Exclude: []string{"/metadata/annotations", "/metadata/labels"}})
	b.run(t)
	up := b.original("a", map[string]string{"k": "1"})
	up.Labels, up.Annotations = map[string]string{"app": "x"}, map[string]string{"note": "x"}
	must(t, b.up.Create(t.Context(), up))
	found := b.wait(t, "a", map[string]string{"k": "1"})
	if found.Labels["app"] != "" || found.Annotations["note"] != "" {
		t.Errorf("excluded metadata were written: %v %v", found.Labels, found.Annotations)
	}
	must(t, b.up.Delete(t.Context(), up))
	fleettest.Gone(t, b.down, b.copyOf("a"))
}
