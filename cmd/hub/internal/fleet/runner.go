// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
)

const (
	// warmPatience: remotes that are not warm by then delay no hand-over, since they may be unreachable for days.
	warmPatience = 15 * time.Second
	warmEvery    = 50 * time.Millisecond // warmEvery is in memory.
	retry        = time.Second           // retry is the time between two tries of a request or a list that fails.
)

// Warm returns when each app waits, or cannot be built now. The holder's crashes count: building may crash this hub, too.
func (f *Fleet) Warm(ctx context.Context, shard int) error {
	if shard == shards.Once {
		return nil
	}
	f.enter(ctx, shard)
	f.inherit(ctx, shard, 0, "")
	if err := f.change(ctx, shard, part{isOurs: true, role: cluster.RoleWarm, prepared: map[types.UID]bool{}}); err != nil {
		return err
	}
	missing := 0
	err := wait.PollUntilContextTimeout(ctx, warmEvery, warmPatience, true, func(ctx context.Context) (bool, error) {
		all, err := f.clustersOf(ctx, shard)
		missing = f.cold(shard, all)
		return missing == 0, err
	})
	if ctx.Err() == nil && wait.Interrupted(err) {
		f.log.Info("Some remotes of a shard are not warm in time; they start when this hub has the shard", "shard", shard, "remotes", missing)
		return nil
	}
	return err
}

// cold is how many may soon be warm.
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

// Start does not wait for apps. Earlier crashes of the process count; without a release, apps that it was starting are suspects.
// It lists the Clusters until ctx ends: without that, no reconcile begins.
func (f *Fleet) Start(ctx context.Context, shard int, epoch int64, after string) {
	f.enter(ctx, shard)
	if shard == shards.Once {
		f.log.Info("This replica runs what runs once", "term", epoch)
		f.once.begin(ctx)
		return
	}
	f.log.V(1).Info("This hub runs the Clusters of a shard", "shard", shard, "epoch", epoch, "after", after)
	f.inherit(ctx, shard, epoch, after)
	for ctx.Err() == nil {
		err := f.change(ctx, shard, part{isOurs: true, role: cluster.RoleRunner, epoch: epoch})
		if err == nil {
			return
		}
		f.log.Error(err, "Failed to trigger the reconciles of the Clusters of a shard; the hub tries again", "shard", shard)
		replica.Pause(ctx, retry)
	}
}

// Drain ends the apps of a shard, and returns when none of their writes is in flight. The gate is closed.
func (f *Fleet) Drain(ctx context.Context, shard int) error {
	if shard == shards.Once {
		return f.drainOnce(ctx)
	}
	all, err := f.clustersOf(ctx, shard)
	if err != nil {
		return err
	}
	if err := f.await(ctx, all); err != nil { // Before the end of the apps, which cancels writes.
		return err
	}
	err = f.change(ctx, shard, part{role: cluster.RoleNone})
	f.journal.LetGo(f.in(shard))
	if err != nil {
		return err
	}
	if err := f.await(ctx, all); err != nil {
		return err
	}
	f.rest(ctx)
	return nil
}

// drainOnce lets writes in flight have their responses, ends the code, and waits for the rest. Without a Lease nothing depends on it.
func (f *Fleet) drainOnce(ctx context.Context) error {
	if _, hasLease := f.Observe(); !hasLease {
		f.once.end(ctx, 0)
		f.leaveOnce()
		return context.Cause(ctx)
	}
	brief, cancel := context.WithTimeout(ctx, briefly)
	defer cancel()
	_ = f.once.awaitWrites(brief)
	allEnded := f.once.end(ctx, f.stop)
	f.log.Info("This replica no longer runs what runs once", "allHasEnded", allEnded)
	if err := f.once.awaitWrites(ctx); err != nil {
		return err
	}
	f.leaveOnce()
	f.rest(ctx)
	return nil
}

func (f *Fleet) leaveOnce() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.parts[shards.Once].isOurs = false
}

const briefly = 2 * time.Second // briefly is for writes in flight, before their code is canceled.

// journalPatience bounds the delay of a start. After it no app is a suspect: the hub must not stop for its API server, and starts
// one by one would stop thousands of Clusters for one.
const journalPatience = 10 * time.Second

// inherit takes over crashes of a shard's apps. Of a holder that ended without a release, starting apps are suspects.
func (f *Fleet) inherit(ctx context.Context, shard int, epoch int64, after string) {
	reading, cancel := context.WithTimeout(ctx, journalPatience)
	defer cancel()
	if err := f.journal.Take(reading, f.in(shard), epoch, shards.PodOf(after)); err != nil && ctx.Err() == nil {
		f.log.Error(err, "Failed to read with which apps another replica crashed; they start without a suspicion",
			"shard", shard, "after", after, "within", journalPatience.String())
	}
}

func (f *Fleet) in(shard int) func(types.UID) bool {
	return func(uid types.UID) bool { return shards.Of(uid, f.count) == shard }
}

func (f *Fleet) await(ctx context.Context, all []hubv1.Cluster) error {
	waiting, ctx := errgroup.WithContext(ctx)
	for _, one := range all {
		waiting.Go(func() error { return f.remotes.AwaitWrites(ctx, registry.ClusterName(one.Name)) })
	}
	return waiting.Wait()
}

func (f *Fleet) change(ctx context.Context, shard int, to part) error {
	f.mu.Lock()
	f.moves.note(f.parts[shard].role, to.role)
	f.parts[shard] = to
	f.mu.Unlock()
	all, err := f.clustersOf(ctx, shard)
	for _, one := range all {
		f.Add(one.Name, 0)
	}
	return err
}

// They must not be changed.
func (f *Fleet) clustersOf(ctx context.Context, shard int) ([]hubv1.Cluster, error) {
	var found hubv1.ClusterList
	if err := f.clusters.List(ctx, &found, client.MatchingFields{shardIndex: strconv.Itoa(shard)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the Clusters of shard %d: %w", shard, err)
	}
	return found.Items, nil
}
