// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A label that an editor has set, changed or removed stays unchanged, regardless of the Secret; labels from the Secret
// follow it. Keys of clusterfx.dev are refused. Only the record decides, so that a restart changes nothing.
func TestStampLabels(t *testing.T) {
	t.Parallel()
	type set = map[string]string
	for name, c := range map[string]struct {
		has, recorded, wanted, want, record set
		refused                             refusedLabels
	}{
		"a new label":                      {wanted: set{"a": "1"}, want: set{"a": "1"}, record: set{"a": "1"}},
		"one with an empty value":          {wanted: set{"a": ""}, want: set{"a": ""}, record: set{"a": ""}},
		"another value":                    {has: set{"a": "1"}, recorded: set{"a": "1"}, wanted: set{"a": "2"}, want: set{"a": "2"}, record: set{"a": "2"}},
		"no longer asked for":              {has: set{"a": "1"}, recorded: set{"a": "1"}, want: set{}},
		"set by an editor":                 {has: set{"a": "1"}, wanted: set{"a": "2"}, want: set{"a": "1"}, refused: refusedLabels{others: []string{"a"}}},
		"set by an editor to the same":     {has: set{"a": "1"}, wanted: set{"a": "1"}, want: set{"a": "1"}},
		"set by an editor, not asked for":  {has: set{"a": "1"}, want: set{"a": "1"}},
		"changed by an editor":             {has: set{"a": "1"}, recorded: set{"a": "2"}, wanted: set{"a": "2"}, want: set{"a": "1"}, record: set{"a": "2"}, refused: refusedLabels{others: []string{"a"}}},
		"changed by both":                  {has: set{"a": "1"}, recorded: set{"a": "2"}, wanted: set{"a": "3"}, want: set{"a": "1"}, record: set{"a": "2"}, refused: refusedLabels{others: []string{"a"}}},
		"changed, and no longer asked for": {has: set{"a": "1"}, recorded: set{"a": "2"}, want: set{"a": "1"}},
		"removed by an editor":             {recorded: set{"a": "1"}, wanted: set{"a": "1"}, record: set{"a": "1"}, refused: refusedLabels{others: []string{"a"}}},
		"removed, another value asked for": {recorded: set{"a": "1"}, wanted: set{"a": "2"}, record: set{"a": "1"}, refused: refusedLabels{others: []string{"a"}}},
		"removed, and no longer asked for": {recorded: set{"a": "1"}},
		"changed by an editor to empty":    {has: set{"a": ""}, recorded: set{"a": "1"}, wanted: set{"a": "1"}, want: set{"a": ""}, record: set{"a": "1"}, refused: refusedLabels{others: []string{"a"}}},
		"reserved keys": {
			wanted: set{"clusterfx.dev/a": "1", "x.clusterfx.dev/b": "1", "notclusterfx.dev/c": "1", "clusterfx.dev": "1"},
			want:   set{"notclusterfx.dev/c": "1", "clusterfx.dev": "1"}, record: set{"notclusterfx.dev/c": "1", "clusterfx.dev": "1"},
			refused: refusedLabels{reserved: []string{"clusterfx.dev/a", "x.clusterfx.dev/b"}},
		},
		"a reserved key of an earlier version": {
			has: set{"clusterfx.dev/a": "1"}, recorded: set{"clusterfx.dev/a": "1"}, wanted: set{"clusterfx.dev/a": "1"},
			want: set{}, refused: refusedLabels{reserved: []string{"clusterfx.dev/a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &hubv1.Cluster{}
			cluster.Labels = c.has
			if c.recorded != nil {
				cluster.Annotations = set{hubv1.AnnotationClusterLabels: labels.Set(c.recorded).String()}
			}
			for range 2 { // The second call changes nothing.
				refused := stampLabels(cluster, c.wanted)
				testkit.Equal(t, cmp.Diff(c.refused, refused, cmp.AllowUnexported(refusedLabels{})), "", "refused labels")
				testkit.Equal(t, cluster.Labels, c.want, "labels")
				got, recorded := cluster.Annotations[hubv1.AnnotationClusterLabels]
				if got != labels.Set(c.record).String() || recorded != (c.record != nil) {
					t.Errorf("record: got %q, want %q", got, labels.Set(c.record).String())
				}
			}
		})
	}
}
