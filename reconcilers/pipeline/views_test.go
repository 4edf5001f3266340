// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A replaced version is old for a while, but not forever: after a restore of etcd it is the newest version.
func TestViews_OfARestoredVersion(t *testing.T) {
	t.Parallel()
	var v views
	key, at := types.NamespacedName{Namespace: "a", Name: "b"}, time.Now()
	v.replace(key, "2", at)
	for _, c := range []struct {
		version string
		after   time.Duration
		old     bool
	}{
		{"2", 0, true},
		{"1", time.Second, false}, // A cache that lags further shows it. It does not affect the next version.
		{"2", 9 * time.Second, true},
		{"3", 9 * time.Second, false},
		{"2", 10 * time.Second, false},
		{"2", 11 * time.Second, false},
	} {
		testkit.Equal(t, v.isOld(key, c.version, at.Add(c.after)), c.old, "version", c.version, "after", c.after, "old")
	}
	if len(v.replaced) > 0 {
		t.Errorf("got replaced versions %v, want none", v.replaced)
	}
}
