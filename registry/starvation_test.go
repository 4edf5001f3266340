// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"net/http"
	"runtime/pprof"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/liveness"
)

// A hub has one pulse: probes use the pulse of the monitor.
func TestPulse_OfTheMonitor(t *testing.T) {
	t.Parallel()
	monitor := liveness.New(liveness.Options{})
	o := Options{
		Monitor: monitor, Scheme: runtime.NewScheme(), Secrets: &kubeconfig.Redactor{},
		Hub: &rest.Config{}, HubMapper: meta.NewDefaultRESTMapper(nil),
	}
	r, err := newRegistry(o, catalog.Catalog{}, &middlewareSet{}, http.DefaultTransport)
	testkit.Must(t, err)
	defer r.end()
	if r.pulse != monitor.Pulse() || r.ownPulse {
		t.Error("the registry has a pulse of its own")
	}
}

// The pulse of a registry without a monitor has ended when Shutdown returns.
func TestPulse_EndsWithTheRegistry(t *testing.T) {
	t.Parallel()
	pprof.Do(t.Context(), pprof.Labels("test", t.Name()), func(ctx context.Context) {
		for range 50 {
			r, err := New(Options{
				Hub: &rest.Config{Host: "https://127.0.0.1:1"}, HubMapper: meta.NewDefaultRESTMapper(nil), Scheme: runtime.NewScheme(),
			})
			testkit.Must(t, err)
			r.mu.Lock()
			r.keepUp()
			r.mu.Unlock()
			testkit.Must(t, r.Shutdown(ctx))
			for stack := range contain.Stacks("test", t.Name()) {
				if strings.Contains(stack, "liveness.(*Pulse).Run") {
					t.Fatalf("the pulse still runs:\n%s", stack)
				}
			}
		}
	})
}
