// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

func TestOrder(t *testing.T) {
	t.Parallel()
	known := func(name string) hubv1.Cluster {
		return hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{hubv1.AnnotationID: "id"}}}
	}
	fresh := hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "fresh"}}
	var o order
	o.begin([]hubv1.Cluster{known("a"), fresh, known("b")})
	a := known("a")
	for _, step := range []struct {
		looked string
		waits  bool
	}{{"fresh", true}, {"a", true}, {"b", false}, {"c", false}} {
		o.looked(step.looked)
		if o.mustWait(&fresh) != step.waits || o.mustWait(&a) {
			t.Errorf("after %s: a new Cluster waits: %t, a known Cluster waits: %t", step.looked, o.mustWait(&fresh), o.mustWait(&a))
		}
	}
}
