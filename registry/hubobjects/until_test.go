// SPDX-License-Identifier: Apache-2.0

package hubobjects

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// Objects end with the last of the watches that have made them, and then the informer does; permissions of a selection are in the place of
// the module's.
func TestSource_Until(t *testing.T) {
	t.Parallel()
	p := offline(t)
	a := newApp(t, p)
	granted := []rbac.NamespacedRules{{Namespace: "default"}}
	a.binding.Refuses = func(by []rbac.NamespacedRules, _ schema.GroupResource, _ string) error {
		if by == nil {
			return errors.New("not declared")
		}
		return nil
	}
	of := Selection{Object: &corev1.ConfigMap{}, Route: All(), Permissions: granted}
	first, endFirst := context.WithCancel(t.Context())
	second, endSecond := context.WithCancel(t.Context())
	of.Until = first
	a.watch(t, of)
	of.Until = second
	a.watch(t, of)
	one := a.watch(t, of)
	endFirst()
	testkit.NoError(t, one.ended())
	endSecond()
	testkit.Eventually(t, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case len(p.informers) > 0:
			return errors.New("the informer runs")
		case one.ended() == nil:
			return errors.New("the objects have not ended")
		}
		return nil
	})
	testkit.Equal(t, a.sources, 0)
	of.Permissions = nil
	if _, err := a.Watch(of); err == nil {
		t.Error("a watch without permissions was not refused")
	}
}
