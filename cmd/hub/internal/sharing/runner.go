// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
)

const (
	// warmPatience is how long Warm waits for the remotes of a shard. Those that are not warm by then delay the hand-over no
	// longer: they may be unreachable for days.
	warmPatience = 15 * time.Second
	// warmEvery is how often Warm looks at them, in memory.
	warmEvery = 50 * time.Millisecond
	// relistEvery is how often Warm looks for Clusters that were created or deleted meanwhile. It copies all Clusters of the hub,
	// and many shards may be warmed at the same time.
	relistEvery = time.Second
	// retry is the time between two tries of a request or a list that fails.
	retry = time.Second
)

// Warm builds the apps of the Clusters of a shard, and returns when each of them waits, or cannot be built now. The crashes that
// the holder has recorded of these apps count here, too: to build an app may crash this hub as well.
func (f *Fleet) Warm(ctx context.Context, shard int, from shards.Origin) error {
	f.inherit(ctx, shard, from)
	if err := f.change(ctx, shard, part{role: cluster.RoleWarm, prepared: map[types.UID]bool{}}); err != nil {
		return err
	}
	enough := time.NewTimer(warmPatience)
	defer enough.Stop()
	again := time.NewTicker(warmEvery)
	defer again.Stop()
	relist := time.NewTicker(relistEvery)
	defer relist.Stop()
	all, err := f.clustersOf(ctx, shard)
	for err == nil {
		missing := f.cold(shard, all)
		if missing == 0 {
			return nil
		}
		select {
		case <-again.C:
		case <-relist.C:
			all, err = f.clustersOf(ctx, shard)
		case <-enough.C:
			f.log.Info("Some remotes of a shard are not warm in time; they start when this hub has the shard", "shard", shard, "remotes", missing)
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

// cold returns how many Clusters of a shard are not warm yet and may soon be.
func (f *Fleet) cold(shard int, all []hubv1.Cluster) int {
	f.mu.RLock()
	prepared := f.parts[shard].prepared
	missing := 0
	var posted []registry.ClusterName
	for i := range all {
		if prepared[all[i].UID] {
			posted = append(posted, registry.ClusterName(all[i].Name))
		} else {
			missing++
		}
	}
	f.mu.RUnlock()
	for _, name := range posted {
		if info, known := f.remotes.Status(name); known && !isSettled(info) {
			missing++
		}
	}
	return missing
}

// Start makes the apps of the Clusters of a shard work. It does not wait for them. The crashes that the process that had the shard
// has recorded count here, too, and if it has ended without a release, the apps that it was starting are suspects. Start tries
// until ctx ends to list the Clusters in the hub's cache: without that, no reconcile of them would begin.
func (f *Fleet) Start(ctx context.Context, shard int, epoch int64, from shards.Origin) {
	f.log.V(1).Info("This hub runs the Clusters of a shard", "shard", shard, "epoch", epoch, "from", from.Name)
	f.inherit(ctx, shard, from)
	for ctx.Err() == nil {
		err := f.change(ctx, shard, part{role: cluster.RoleRunner, epoch: epoch})
		if err == nil {
			return
		}
		f.log.Error(err, "Failed to trigger the reconciles of the Clusters of a shard; the hub tries again", "shard", shard)
		pause(ctx, retry)
	}
}

// Drain ends the apps of the Clusters of a shard, and returns when none of their writes is in flight. The gate of the shard
// is closed.
func (f *Fleet) Drain(ctx context.Context, shard int) error {
	all, err := f.clustersOf(ctx, shard)
	if err != nil {
		return err
	}
	if err := f.await(ctx, all); err != nil { // Before the end of the apps, which cancels writes.
		return err
	}
	if err := f.change(ctx, shard, part{role: cluster.RoleNone}); err != nil {
		return err
	}
	return f.await(ctx, all)
}

// await returns when no write to the remotes of Clusters is in flight.
func (f *Fleet) await(ctx context.Context, all []hubv1.Cluster) error {
	waiting, ctx := errgroup.WithContext(ctx)
	for _, one := range all {
		waiting.Go(func() error { return f.remotes.AwaitWrites(ctx, registry.ClusterName(one.Name)) })
	}
	return waiting.Wait()
}

// change changes what this hub does with a shard, and triggers a reconcile of its Clusters.
func (f *Fleet) change(ctx context.Context, shard int, to part) error {
	f.mu.Lock()
	f.moves.note(f.parts[shard].role, to.role)
	f.parts[shard] = to
	queue := f.queue
	f.mu.Unlock()
	all, err := f.clustersOf(ctx, shard)
	if err != nil || queue == nil {
		return err
	}
	for _, one := range all {
		queue.Add(ctrl.Request{NamespacedName: client.ObjectKey{Name: one.Name}})
	}
	return nil
}

// clustersOf returns the Clusters of a shard. They must not be changed.
func (f *Fleet) clustersOf(ctx context.Context, shard int) ([]hubv1.Cluster, error) {
	var found hubv1.ClusterList
	if err := f.clusters.List(ctx, &found, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the Clusters of shard %d: %w", shard, err)
	}
	var all []hubv1.Cluster
	for _, one := range found.Items {
		if shards.Of(one.UID, f.count) == shard {
			all = append(all, one)
		}
	}
	return all, nil
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
