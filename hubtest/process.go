// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"runtime/pprof"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// process is the hub's: in production a process of its own. One goroutine at a time starts and stops it, any number
// of times.
type process struct {
	site    *site
	id      string // label of its goroutines
	log     *log
	account *fleet.Credential // nil for the administrator, and set before the first start

	now atomic.Pointer[run] // nil while none runs
}

type run struct {
	cancel context.CancelFunc
	up     chan parts
	done   chan struct{}
	err    error
	parts  parts
}

// stopTimeout is longer than the hub's own.
const stopTimeout = 40 * time.Second

func newProcess(s *site) *process {
	return &process{site: s, id: rand.Text(), log: newLog(s.tb, s.options.verbose)}
}

func (p *process) options(r *run) app.Options {
	o := app.Options{Config: p.site.hub.config(p.account), Log: p.log.logger(), Modules: p.site.options.modules, Alone: true}
	o.Registry.Replica = "hubtest"
	o.Registry.Policy.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	o.Registry.ModuleConfigs = slices.Clone(p.site.options.configs)
	if a := p.site.agents; a != nil {
		o.TunnelAddress = a.Address
	}
	for _, change := range p.site.options.hub {
		change(&o)
	}
	o.Modules = append(o.Modules[:len(o.Modules):len(o.Modules)], reporter(r.up))
	return o
}

func (p *process) start(tb testing.TB) {
	tb.Helper()
	if p.now.Load() != nil {
		tb.Fatalf("hubtest: the hub runs already: stop it first")
	}
	r := &run{up: make(chan parts, 1), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(p.site.context())
	r.cancel = cancel
	o := p.options(r)
	go pprof.Do(ctx, pprof.Labels(hubLabel, p.id), func(ctx context.Context) {
		defer close(r.done)
		r.err = app.Run(ctx, o)
	})
	p.now.Store(r)
	select {
	case r.parts = <-r.up:
	case <-r.done:
		p.now.Store(nil)
		tb.Fatalf("hubtest: start the hub: %v", r.failure())
	case <-time.After(p.site.options.patience):
		tb.Fatalf("hubtest: the caches of the hub are not filled after %s", p.site.options.patience)
	}
}

func (p *process) stop() error {
	r := p.now.Load()
	if r == nil {
		return nil
	}
	p.now.Store(nil)
	r.cancel()
	select {
	case <-r.done:
		return r.err
	case <-time.After(stopTimeout):
		return fmt.Errorf("it has not ended within %s", stopTimeout)
	}
}

func (p *process) running() (parts, error) {
	if r := p.now.Load(); r != nil {
		return r.parts, nil
	}
	return parts{}, errors.New("the hub does not run: start it with Hub.Start")
}

func (p *process) parts(tb testing.TB) parts {
	tb.Helper()
	now, err := p.running()
	if err != nil {
		tb.Fatalf("hubtest: %v", err)
	}
	return now
}

func (p *process) credentialsNamespace() string {
	return cmp.Or(p.options(&run{}).CredentialsNamespace, hubv1.DefaultNamespace)
}

func (p *process) failure() error {
	r := p.now.Load()
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return r.failure()
	default:
		return nil
	}
}

func (r *run) failure() error {
	if r.err == nil {
		return errors.New("it ended by itself: a module has called fx.Shutdowner")
	}
	return r.err
}
