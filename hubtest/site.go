// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/internal/tunnel"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// site is a hub, its remotes and connections. It belongs to the test that New was given.
type site struct {
	tb      testing.TB
	options options
	scheme  *runtime.Scheme
	process *process
	hub     *way
	agents  *tunnel.Local // nil without tunnels

	remotes sync.Map // of *remote, by name

	mu   sync.Mutex // protects the field
	ways []*way
}

func newSite(tb testing.TB, opts []Option) *site {
	tb.Helper()
	s := &site{tb: tb, options: newOptions(opts), scheme: runtime.NewScheme()}
	s.process = newProcess(s)
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, hubv1.AddToScheme, apiextensionsv1.AddToScheme)
	builder.Register(s.options.schemes...)
	if err := builder.AddToScheme(s.scheme); err != nil {
		tb.Fatalf("hubtest: build the scheme of the test's clients: %v", err)
	}
	return s
}

func (s *site) context() context.Context { return context.WithoutCancel(s.tb.Context()) }

func (s *site) rules() []rbacv1.PolicyRule {
	if s.options.rules != nil {
		return s.options.rules
	}
	o := s.process.options(&run{})
	modules, err := registry.ConfigureModules(o.Modules, o.Registry.ModuleConfigs)
	if err != nil {
		s.tb.Fatalf("hubtest: configure the modules: %v", err)
	}
	return rbac.RemoteRules(modules...)
}

// open takes a server of each role from the pool, or starts it.
func (s *site) open(tb testing.TB, roles ...pool.Role) []*way {
	tb.Helper()
	ways, errs := make([]*way, len(roles)), make([]error, len(roles))
	var opening sync.WaitGroup
	for i, r := range roles {
		opening.Go(func() {
			c, err := fleettest.Lender().Take(s.context(), r)
			if err == nil {
				ways[i], err = newWay(s, c)
			}
			errs[i] = err
		})
	}
	opening.Wait()
	s.mu.Lock()
	for _, w := range ways {
		if w != nil {
			s.ways = append(s.ways, w)
		}
	}
	s.mu.Unlock()
	if err := errors.Join(errs...); err != nil {
		tb.Fatalf("hubtest: start API servers: %v", err)
	}
	return ways
}

func (s *site) end() {
	s.tb.Helper()
	s.process.log.showIfFailed()
	if err := s.process.stop(); err != nil {
		s.tb.Errorf("hubtest: stop the hub: %v", err)
	}
	s.agents.Close()
	s.mu.Lock()
	ways := slices.Clone(s.ways)
	s.mu.Unlock()
	for _, w := range ways {
		w.close()
	}
	if left := findLeaks(s.process.id, s.options.leakPatience); len(left) > 0 {
		s.tb.Errorf("hubtest: the hub has ended, but these goroutines are still running:\n%s", strings.Join(left, "\n\n"))
	}
	var cleaning sync.WaitGroup
	for _, w := range ways {
		cleaning.Go(func() {
			if err := fleettest.Lender().GiveBack(s.context(), w.cluster); err != nil {
				s.tb.Logf("hubtest: an API server is not used again: %v", err)
			}
		})
	}
	cleaning.Wait()
}
