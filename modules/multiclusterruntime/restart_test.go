// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The documented controller works after its hub part has failed and was built again.
func TestExample_HubPartFails(t *testing.T) {
	t.Parallel()
	var lives atomic.Int64
	failing := registry.NewModule("failing", registry.ModuleOptions{Rules: rules(), HubRuns: registry.WithRemotes, Hub: fx.Options(
		fx.Invoke(setUp),
		fx.Invoke(func(l fx.Lifecycle) {
			l.Append(fx.StartHook(func() error {
				if lives.Add(1) == 1 {
					return errors.New("no database")
				}
				return nil
			}))
		}),
	)})
	h := hubtest.New(t, hubtest.Remotes("a"), hubtest.Modules(newExample()[0], failing))
	h.WaitHubPart("failing", state.ModuleRunning, "")
	expectWritten(t, h, "after-a-failure")
}

// expectWritten expects that the example's controller writes into a new ConfigMap.
func expectWritten(t *testing.T, h *hubtest.Hub, name string) {
	t.Helper()
	a := h.Remote("a")
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}}
	one.Data = map[string]string{clusterKey: ""}
	a.Create(one)
	a.WaitFor(one, func() error {
		if got := one.Data[clusterKey]; got != "a" {
			return fmt.Errorf("name in %s: got %q, want a", name, got)
		}
		return nil
	})
}
