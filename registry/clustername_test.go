// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The name of a remote is a label of metrics and the name of its Cluster, so names that are not DNS labels are refused.
func TestRegistry_InvalidName(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	_, config := remote(t, "one")
	for _, name := range []registry.ClusterName{"", "A", "a.b", "a_b", "-a", "a/b", "a\nb", registry.ClusterName(strings.Repeat("a", 64))} {
		for what, err := range map[string]error{"Ensure": r.Ensure(name, config), "Spawn": r.Spawn(t.Context(), name, config)} {
			if invalid, ok := errors.AsType[*state.InvalidNameError](err); !ok || invalid.Name != name || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s(%q): %v, want an InvalidNameError", what, name, err)
			}
		}
	}
	if all := r.List(); len(all) > 0 {
		t.Errorf("got %d remotes, want 0", len(all))
	}
}

// After the call of Stop, WithClient lends no client, even if the caller does not wait for the end of the app.
func TestRegistry_WithClientAfterStop(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	_, config := remote(t, "one")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		spawn(t, r, "a", config)
		if err := r.Stop(ended, "a"); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		err := r.WithClient(t.Context(), "a", func(context.Context, client.Client) error {
			t.Error("WithClient lends a client after Stop")
			return nil
		})
		var notReady *registry.NotReadyError
		if !errors.Is(err, registry.ErrNotFound) && (!errors.As(err, &notReady) || notReady.Reason != state.ReasonStopping) {
			t.Errorf("WithClient: %v, want ErrNotFound or a NotReadyError with reason Stopping", err)
		}
		if err := r.Stop(t.Context(), "a"); err != nil && !errors.Is(err, registry.ErrNotFound) {
			t.Fatal(err)
		}
		testkit.ErrorIs(t, r.WithClient(t.Context(), "a", nil), registry.ErrNotFound, "WithClient")
	}
}
