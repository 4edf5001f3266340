// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Whether a Cluster has a rival is known when the watch has reported the record of the cluster that its remote is now.
func TestRivals_AreKnown(t *testing.T) {
	t.Parallel()
	var r rivals // No case has another Cluster to read.
	r.byID.Set("seen", "one")
	status := func(id string, identity metav1.ConditionStatus) registry.Status {
		return registry.Status{
			ID: id, Reachable: state.Condition{Status: metav1.ConditionTrue}, Identity: state.Condition{Status: identity},
		}
	}
	for what, tc := range map[string]struct {
		name, recorded string
		info           registry.Status
		want           bool
	}{
		"no record":                    {name: "new"},
		"no record yet":                {name: "new", info: status("one", metav1.ConditionTrue)},
		"no record, and there is none": {name: "new", info: status("", metav1.ConditionUnknown), want: true},
		"a record that was not seen":   {name: "new", recorded: "new one"},
		"a record that was seen":       {name: "seen", recorded: "one", want: true},
		"the same cluster":             {name: "seen", recorded: "one", info: status("one", metav1.ConditionTrue), want: true},
		"another cluster, accepted":    {name: "seen", recorded: "one", info: status("two", metav1.ConditionTrue)},
	} {
		c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: tc.name}}
		if tc.recorded != "" {
			c.Annotations = map[string]string{hubv1.AnnotationID: tc.recorded}
		}
		if rival, isKnown, err := r.of(t.Context(), c, tc.info); isKnown != tc.want || rival != "" || err != nil {
			t.Errorf("%s: known is %t, want %t; rival %q, error %v", what, isKnown, tc.want, rival, err)
		}
	}
}
