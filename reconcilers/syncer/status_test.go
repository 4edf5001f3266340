// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/internal/memory"
)

// A status is not written again while the cache is behind the last write, or if the API server drops a part of it; but it is if
// another client has changed it.
func TestStatusWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		last     memory.StatusWrite
		revision string
		now      map[string]any
		want     bool
	}{
		"never written":           {memory.StatusWrite{}, "1", nil, false},
		"another was written":     {memory.StatusWrite{Sent: 1, Before: "1", At: time.Now()}, "1", nil, false},
		"the cache is behind":     {memory.StatusWrite{Sent: 9, Before: "1", At: time.Now()}, "1", nil, true},
		"behind for too long":     {memory.StatusWrite{Sent: 9, Before: "1", At: time.Now().Add(-memory.StaleFor)}, "1", nil, false},
		"changed by another":      {memory.StatusWrite{Sent: 9, Before: "1", At: time.Now()}, "3", nil, false},
		"a part is dropped":       {memory.StatusWrite{Sent: 9, Kept: 7, Before: "1"}, "1", nil, true},
		"beside that of another":  {memory.StatusWrite{Sent: 9, Before: "1"}, "3", map[string]any{"state": "Ready", "other": "x"}, true},
		"declared fields":         {memory.StatusWrite{Sent: 9, Before: "1", Declared: map[string]any{"a": "b"}}, "3", map[string]any{"a": "b"}, true},
		"written before, changed": {memory.StatusWrite{Sent: 9, Before: "1"}, "3", map[string]any{"state": "Failed"}, false},
	} {
		s := &Session[*corev1.ConfigMap]{of: &reconciler[*corev1.ConfigMap]{memory: memory.New()}, key: named("up"), up: &corev1.ConfigMap{}}
		s.up.ResourceVersion = c.revision
		s.of.memory.Change(s.key, func(o *memory.Object) { o.Wrote.Status = c.last })
		testkit.Equal(t, s.statusWritten(c.now, map[string]any{"state": "Ready"}, 7, 9), c.want, name)
	}
}
