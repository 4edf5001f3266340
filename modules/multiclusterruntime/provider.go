// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Options say which remotes a Provider gives to controllers. The zero value gives all.
type Options struct {
	// Select is called again when a remote changes. It must return at once and must not call the Provider. Nil means
	// all. See state.MatchLabels.
	Select func(registry.Status) bool
	// Log receives errors of single remotes. Default: the manager's with New, none with NewProvider.
	Log logr.Logger
}

// New returns a multicluster manager in front of the hub's, with the registry's remotes as clusters. The hub's
// manager runs its controllers; calling Start is unnecessary and harmless. Add controllers before the hub's manager
// starts: later ones hear only of remotes that become Ready after that. It fails if the hub's manager accepts no more
// runnables. It makes no requests and does not block.
func New(mgr ctrl.Manager, r *registry.Registry, o Options) (mcmanager.Manager, error) {
	if o.Log.IsZero() {
		o.Log = mgr.GetLogger().WithName("multiclusterruntime")
	}
	p := NewProvider(r, o)
	m, err := mcmanager.WithMultiCluster(mgr, p)
	if err != nil {
		return nil, fmt.Errorf("put a multicluster manager in front of the hub's: %w", err)
	}
	run := manager.RunnableFunc(func(ctx context.Context) error { return p.Start(ctx, m) })
	if err := mgr.Add(run); err != nil {
		return nil, fmt.Errorf("add the provider of remotes to the hub's manager: %w", err)
	}
	return m, nil
}

// Provider gives the remotes of a registry to the controllers of multicluster-runtime. Most hubs get it from New; with a
// manager of your own use NewProvider.
type Provider struct {
	registry *registry.Registry
	options  Options
	running  sync.WaitGroup // the engagements; added to while not ended

	mu      sync.RWMutex // held for a few instructions and Options.Select
	aware   multicluster.Aware
	ended   bool
	engaged map[registry.ClusterName]*engagement
	indexes []index
}

var (
	_ multicluster.Provider         = (*Provider)(nil)
	_ multicluster.ProviderRunnable = (*Provider)(nil)
)

type index struct {
	obj     client.Object
	field   string
	extract client.IndexerFunc
}

// NewProvider returns a provider that the caller runs. It has no remotes before Start.
func NewProvider(r *registry.Registry, o Options) *Provider {
	return &Provider{registry: r, options: o, engaged: map[registry.ClusterName]*engagement{}}
}

// errOther: Start was called for two managers.
var errOther = errors.New("the provider already runs for another manager: make a provider for each manager")

// Start engages every Ready remote with aware, each in a goroutine, until ctx ends and the last Engage has returned.
// A second Start for the same aware only waits for ctx.
//
// Engage is called once for each epoch, after the call for the previous one has ended, and again with backoff of up
// to half a minute when it fails. Its context ends when the remote is no longer Ready or selected, leaves, or gets
// another epoch.
func (p *Provider) Start(ctx context.Context, aware multicluster.Aware) error {
	first, err := p.begin(aware)
	if err != nil {
		return err
	}
	if first {
		p.registry.Follow(ctx, func(e registry.Event) { p.take(ctx, e) })
	}
	<-ctx.Done()
	if first {
		p.end()
	}
	return nil
}

func (p *Provider) begin(aware multicluster.Aware) (first bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.aware != nil && p.aware != aware {
		return false, errOther
	}
	if p.aware != nil {
		return false, nil
	}
	p.aware = aware
	return true, nil
}

func (p *Provider) end() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.running.Wait()
}

// take compares a remote with its engagement, one event at a time, after begin.
func (p *Provider) take(ctx context.Context, e registry.Event) {
	info, known := p.registry.Status(e.Name)
	wanted := known && info.State != state.StateStopped && (p.options.Select == nil || p.options.Select(info))
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.engaged[e.Name]
	switch {
	case p.ended || ctx.Err() != nil:
	case !wanted && one != nil:
		one.cancel()
	case wanted && info.State == state.StateReady && (one == nil || !one.isFor(info.Epoch)):
		next := newEngagement(ctx, p, info)
		if one != nil {
			one.cancel()
			next.after = one.done
		}
		p.engaged[e.Name] = next
		p.running.Go(next.run)
	}
}

// forget spares a successor.
func (p *Provider) forget(e *engagement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engaged[e.name] == e {
		delete(p.engaged, e.name)
	}
}

// Get returns an engaged remote, and never waits. Otherwise the error matches multicluster.ErrClusterNotFound, on
// which the builder's controllers drop a request: a remote that becomes Ready requests all of its objects. It also
// matches registry.ErrNotReady or registry.ErrNotFound. The result is valid for one epoch: later requests fail with
// registry.ErrStopped.
func (p *Provider) Get(_ context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	p.mu.RLock()
	one := p.engaged[registry.ClusterName(name)]
	p.mu.RUnlock()
	if one != nil {
		if c := one.current.Load(); c != nil && c.ctx.Err() == nil {
			return c, nil
		}
	}
	return nil, p.notEngaged(registry.ClusterName(name))
}

func (p *Provider) notEngaged(name registry.ClusterName) error {
	info, known := p.registry.Status(name)
	if !known {
		return fmt.Errorf("%s: %w: %w", name, multicluster.ErrClusterNotFound, registry.ErrNotFound)
	}
	why := &registry.NotReadyError{Name: name, State: info.State, Reason: info.Reason, Message: info.Message, Problem: info.Problem}
	if info.State == state.StateReady {
		why.Reason, why.Message = "NotEngaged", "it is not selected, or not engaged yet"
	}
	return fmt.Errorf("%w: %w", multicluster.ErrClusterNotFound, why)
}

// IndexField makes a field usable with client.MatchingFields in all remotes, present and future. A remote gets its
// indexes before controllers hear of it, or of the first object if it does not serve the kind yet. It returns when
// each present remote has the index or has failed, or ctx ends. It returns no error: failures are logged and retried.
// The first index of a name and kind holds for the whole hub.
func (p *Provider) IndexField(
	ctx context.Context, obj client.Object, field string, extract client.IndexerFunc,
) error {
	p.mu.Lock()
	p.indexes = append(p.indexes, index{obj: obj, field: field, extract: extract})
	var present []*engagement
	for _, one := range p.engaged {
		present = append(present, one)
	}
	p.mu.Unlock()
	var adding sync.WaitGroup
	for _, one := range present {
		adding.Go(func() { one.indexNow(ctx) })
	}
	adding.Wait()
	return nil
}

func (p *Provider) allIndexes() []index {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Clone(p.indexes)
}
