// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// Options describe the share of a hub. New sets Runner, Pins, Sizes and Version.
type Options struct {
	replica.Options
	// StopTimeout is how long the end of what runs once delays its move to another replica at most.
	StopTimeout time.Duration
	// Idle is called when this replica has drained its last shard, and may still write. Default: no call.
	Idle func(ctx context.Context)
}

// Remotes is what a Fleet uses of the registry.
type Remotes interface {
	Status(name registry.ClusterName) (registry.Status, bool)
	List() []registry.Status
	AwaitWrites(ctx context.Context, name registry.ClusterName) error
}

// Journal is cluster.Journal.
type Journal interface {
	Take(ctx context.Context, has func(types.UID) bool, term int64, crashed string) error
	LetGo(has func(types.UID) bool)
}

// Fleet is the share of a hub. It is safe for many goroutines.
type Fleet struct {
	*replica.Replica
	name   string
	labels map[string]string
	count  int
	log    logr.Logger
	moves  moves
	stop   time.Duration
	idle   func(context.Context)
	once   *turn // to run what runs once
	active *turn // to run what runs beside Clusters

	remotes  Remotes     // set by Attach
	clusters cache.Cache // set by Attach
	journal  Journal     // set by Attach

	mu    sync.RWMutex // protects the fields below; held for map operations only
	parts []part
	names map[registry.ClusterName]types.UID // as of the last reconcile of each Cluster
	sizes []int                              // how many of names each shard has

	watch.Requests // for Clusters whose role has changed
}

type part struct {
	isOurs   bool // from the beginning of Warm or Start, before the role
	role     cluster.Role
	epoch    int64              // with the RoleRunner
	prepared map[types.UID]bool // the Clusters that were reconciled with the RoleWarm
}

var (
	_ replica.Apps  = (*Fleet)(nil)
	_ cluster.Share = (*Fleet)(nil)
)

// New returns the share of a hub, which is empty before Run. It sends no request.
func New(o Options) (*Fleet, error) {
	if o.Count == 0 {
		o.Count = shards.DefaultCount
	}
	f := &Fleet{
		name: o.Pod, labels: o.Labels, count: o.Count, log: o.Log, moves: newMoves(), stop: o.StopTimeout, idle: o.Idle,
		parts: make([]part, max(o.Count, 0)+1), names: map[registry.ClusterName]types.UID{}, sizes: make([]int, max(o.Count, 0)+1),
	}
	for i := range f.parts {
		f.parts[i].role = cluster.RoleNone
	}
	f.once = newTurn(func() error {
		_, err := f.GateOnce()
		return err
	})
	f.active = newTurn(func() error { return f.Check() })
	var err error
	o.Runner, o.Pins, o.Sizes, o.Version = f, f.pins, f.sizesNow, project.Version()
	f.Replica, err = replica.New(o.Options)
	return f, err
}

// Attach gives the share the registry, the cache and the journal. Call it once, before Run and the cache, for an index.
func (f *Fleet) Attach(remotes Remotes, clusters cache.Cache, journal Journal) error {
	f.remotes, f.clusters, f.journal = remotes, clusters, journal
	return index(clusters, f.count)
}

// Marks is a runnable of the manager: see marks. Call it once, after Attach.
func (f *Fleet) Marks(hub client.Client, recorder events.EventRecorder) manager.Runnable {
	return &marks{
		observe: f.Observe, count: f.count, clusters: f.clusters, client: hub, events: recorder, log: f.log,
		written: f.moves.marks,
	}
}

// Once is the turn to run what runs once: while this replica has the shard without Clusters.
func (f *Fleet) Once() registry.Turn { return f.once }

// WithRemotes is the turn to run what runs beside remotes: from the first shard that is warmed or taken to the end of the last app.
func (f *Fleet) WithRemotes() registry.Turn { return f.active }

// Run takes part until ctx ends, and hands over; registry and manager must outlast it. For errors see replica.Replica.Run.
func (f *Fleet) Run(ctx context.Context) error {
	if !f.clusters.WaitForCacheSync(ctx) {
		return nil // The hub ends before it has begun.
	}
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { f.watchTurn(watching) })
	defer running.Wait()
	defer cancel()
	return f.Replica.Run(ctx)
}

// watchTurn ends the turn of what runs beside remotes when this replica has neither a shard nor an app. It begins it again if a shard
// has come in between.
func (f *Fleet) watchTurn(ctx context.Context) {
	for ctx.Err() == nil {
		switch {
		case f.hasShards(shards.Once + 1):
			f.active.begin(ctx)
		case len(f.remotes.List()) == 0:
			f.active.end(ctx, 0)
		}
		replica.Pause(ctx, turnEvery)
	}
}

const turnEvery = 500 * time.Millisecond // turnEvery is in memory.

func (f *Fleet) hasShards(from int) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.ContainsFunc(f.parts[from:], func(p part) bool { return p.isOurs })
}

// enter begins the turn of what runs beside remotes, before the apps of a shard are built.
func (f *Fleet) enter(ctx context.Context, shard int) {
	f.mu.Lock()
	f.parts[shard].isOurs = true
	f.mu.Unlock()
	if shard != shards.Once {
		f.active.begin(ctx)
	}
}

// rest tells the hub that this replica has drained its last shard.
func (f *Fleet) rest(ctx context.Context) {
	if f.idle != nil && !f.hasShards(shards.Once) {
		f.idle(ctx)
	}
}

// Gate is for registry.Options. The empty name is for writes without a remote: permitted to an active replica.
func (f *Fleet) Gate(remote registry.ClusterName) (term int64, err error) {
	if remote == "" {
		return 0, f.Check()
	}
	f.mu.RLock()
	uid, known := f.names[remote]
	f.mu.RUnlock()
	if !known {
		return 0, fmt.Errorf("%s: %w", remote, registry.ErrNotFound)
	}
	epoch, err := f.Replica.Gate(uid)
	if err == nil {
		return epoch, nil
	}
	return 0, fmt.Errorf("%s: %w", remote, f.whyClosed(uid, f.HolderOf(uid)))
}

// errClosed is not ErrElsewhere: the hub runs the Cluster, and nothing tells a module when the gate opens, so it tries again.
var errClosed = errors.New("this replica has no valid Lease at this moment, or is about to hand the Cluster over")

// whyClosed: a Cluster that is handed over is elsewhere once its app has ended here, before the record has the next holder.
func (f *Fleet) whyClosed(uid types.UID, holder string) error {
	f.mu.RLock()
	role := f.parts[shards.Of(uid, f.count)].role
	f.mu.RUnlock()
	switch {
	case holder == "":
		return fmt.Errorf("%w: no replica has it at this moment", registry.ErrElsewhere)
	case holder != f.name:
		return fmt.Errorf("%w: %s", registry.ErrElsewhere, holder)
	case role != cluster.RoleRunner:
		return fmt.Errorf("%w: this replica hands it over", registry.ErrElsewhere)
	}
	return errClosed
}

// IsAlive is the Alive of registry.Options, as far as this replica knows.
func (f *Fleet) IsAlive(name string) bool { return !f.HasEnded(name) }

// RoleOf returns what this hub does with a Cluster, and how its status describes this hub if it runs it.
func (f *Fleet) RoleOf(name registry.ClusterName, uid types.UID) (cluster.Role, hubv1.RunnerStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.note(name, uid)
	p := &f.parts[shards.Of(uid, f.count)]
	if p.role != cluster.RoleRunner {
		return p.role, hubv1.RunnerStatus{}
	}
	return p.role, hubv1.RunnerStatus{
		Name: f.name, Type: hubv1.RunnerHub, Version: project.Version(),
		Epoch: int32(min(p.epoch, math.MaxInt32)), //nolint:gosec // It fits: records have no higher epochs.
	}
}

// Prepared records that a Cluster was reconciled for RoleWarm.
func (f *Fleet) Prepared(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := &f.parts[shards.Of(uid, f.count)]; p.prepared != nil {
		p.prepared[uid] = true
	}
}

// Forget forgets a Cluster that is gone.
func (f *Fleet) Forget(name registry.ClusterName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.note(name, "")
}

// note takes the UID of a Cluster, or none for one that is gone. It needs f.mu.
func (f *Fleet) note(name registry.ClusterName, uid types.UID) {
	before := f.names[name]
	if before == uid {
		return
	}
	if delete(f.names, name); before != "" {
		f.sizes[shards.Of(before, f.count)]--
	}
	if uid != "" {
		f.names[name] = uid
		f.sizes[shards.Of(uid, f.count)]++
	}
}

func (f *Fleet) sizesNow() []int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Clone(f.sizes)
}

// isSettled: nothing more is to be expected of a warm remote, for now.
func isSettled(info registry.Status) bool {
	return info.State != state.StatePending && info.State != state.StateStarting && info.State != state.StateStopping
}
