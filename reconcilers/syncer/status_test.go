// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A status is not written again while the cache is behind the last write, or if the API server drops a part of it; but it is if
// another client has changed it.
func TestStatusWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		last     statusWrite
		revision string
		now      map[string]any
		want     bool
	}{
		"never written":           {statusWrite{}, "1", nil, false},
		"another was written":     {statusWrite{sent: 1, before: "1", at: time.Now()}, "1", nil, false},
		"the cache is behind":     {statusWrite{sent: 9, before: "1", at: time.Now()}, "1", nil, true},
		"behind for too long":     {statusWrite{sent: 9, before: "1", at: time.Now().Add(-staleFor)}, "1", nil, false},
		"changed by another":      {statusWrite{sent: 9, before: "1", at: time.Now()}, "3", nil, false},
		"a part is dropped":       {statusWrite{sent: 9, kept: 7, before: "1"}, "1", nil, true},
		"beside that of another":  {statusWrite{sent: 9, before: "1"}, "3", map[string]any{"state": "Ready", "other": "x"}, true},
		"declared fields":         {statusWrite{sent: 9, before: "1", declared: map[string]any{"a": "b"}}, "3", map[string]any{"a": "b"}, true},
		"written before, changed": {statusWrite{sent: 9, before: "1"}, "3", map[string]any{"state": "Failed"}, false},
	} {
		s := &Session[*corev1.ConfigMap]{of: &reconciler[*corev1.ConfigMap]{memory: newMemory()}, key: named("up"), up: &corev1.ConfigMap{}}
		s.up.ResourceVersion = c.revision
		s.of.memory.wrote(s.key, func(w *write) { w.status = c.last })
		if got := s.statusWritten(c.now, map[string]any{"state": "Ready"}, statusDigests{had: 7, sent: 9}); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
