// SPDX-License-Identifier: Apache-2.0

package runners

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/mode"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// requestsWithin bounds one look at the objects.
const requestsWithin = 30 * time.Second

// Hub is a hub whose replicas share its Clusters.
type Hub struct {
	Cluster   *access.Cluster
	Namespace string
	// ModeLease is the Lease of leader mode. Default: not read; a hub that was in Sharded mode counts as one that is.
	ModeLease string
	// LeaderLease is that of the replica that runs what runs once. Default: not read.
	LeaderLease string
}

// State is the state of a replica.
type State string

// A replica has the first one that applies.
const (
	Over     State = "Over"     // its Lease has no incarnation, or was not renewed for its duration
	Leaving  State = "Leaving"  // it is about to end, and hands over its shards
	Draining State = "Draining" // an administrator has drained it, and it holds shards
	Drained  State = "Drained"  // an administrator has drained it, and it holds none
	Live     State = "Live"     // it gets shards
)

// Runner is a replica.
type Runner struct {
	Name  string
	State State
	// Drained is an administrator's wish, ignored in a List with Ignored.
	Drained bool
	// Incarnation is empty if it has ended.
	Incarnation string
	// Shards whose records name it, ascending.
	Shards   []int
	Clusters int
	// Assigns: it writes the assignment. RunsOnce: it runs registration and hub parts that run once.
	Assigns, RunsOnce bool
	Labels            map[string]string
	// Version is empty if its Lease does not say it.
	Version string
	Renewed time.Time
}

// List has the replicas of a hub.
type List struct {
	// Runners have a Lease, sorted by name. Those of ended replicas remain for an hour.
	Runners []Runner
	Shards  int
	// Unheld shards have no replica that is not over, ascending.
	Unheld []int
	// Ignored: all live replicas are drained, so that the hub ignores it.
	Ignored bool

	hasClusters bool
}

// List blocks for 30 seconds at most. The error matches replica.ErrNotSharded if replicas do not share the Clusters. An
// error beside a List says what that lacks.
func (h *Hub) List(ctx context.Context) (*List, error) {
	ctx, cancel := context.WithTimeout(ctx, requestsWithin)
	defer cancel()
	l, survey, problem := h.look(ctx)
	if l == nil {
		return nil, problem
	}
	var clusters hubv1.ClusterList
	err := h.Cluster.List(ctx, &clusters)
	if l.hasClusters = err == nil; l.hasClusters {
		l.count(clusters.Items, survey.Holders)
	} else if !apierrors.IsForbidden(err) { // The table shows that the numbers are not known.
		problem = errors.Join(problem, h.Cluster.Explain(fmt.Errorf("list Clusters: %w", err)))
	}
	return l, errors.Join(problem, h.markLeader(ctx, l))
}

// look leaves out Clusters.
func (h *Hub) look(ctx context.Context) (*List, *replica.Survey, error) {
	if err := h.checkMode(ctx); err != nil {
		return nil, nil, err
	}
	survey, err := replica.ReadSurvey(ctx, h.Cluster, h.Namespace)
	if survey == nil {
		if errors.Is(err, replica.ErrNotSharded) {
			return nil, nil, err
		}
		return nil, nil, h.Cluster.Explain(err)
	}
	return listOf(survey, time.Now()), survey, err
}

// checkMode fails in leader mode: Leases of replicas may be left from before. Without that Lease the mode is not known.
func (h *Hub) checkMode(ctx context.Context) error {
	if h.ModeLease == "" {
		return nil
	}
	var lease coordinationv1.Lease
	key := client.ObjectKey{Namespace: h.Namespace, Name: h.ModeLease}
	err := h.Cluster.Get(ctx, key, &lease)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return h.Cluster.Explain(fmt.Errorf("read the Lease of leader mode: %w", err))
	case !mode.IsSharded(&lease, h.Namespace):
		return fmt.Errorf("%w: the Lease %s belongs to a hub in leader mode", replica.ErrNotSharded, key)
	}
	return nil
}

func listOf(survey *replica.Survey, now time.Time) *List {
	l := &List{Shards: len(survey.Holders), Ignored: isIgnored(survey, now)}
	live := map[shards.Holder]bool{}
	held := map[string][]int{}
	for _, m := range survey.Members {
		live[shards.Holder{Name: m.Name, Incarnation: m.Lease.Incarnation}] = !m.IsOver(now)
	}
	for shard, holder := range survey.Holders {
		held[holder.Name] = append(held[holder.Name], shard)
		if !live[holder] {
			l.Unheld = append(l.Unheld, shard)
		}
	}
	for _, m := range survey.Members {
		r := Runner{
			Name: m.Name, Drained: m.Lease.Drained, Incarnation: m.Lease.Incarnation, Shards: held[m.Name],
			Assigns: m.Name == survey.Leader, Labels: m.Labels, Version: m.Version, Renewed: m.Lease.Renewed,
		}
		r.State = stateOf(m, len(r.Shards), l.Ignored, now)
		l.Runners = append(l.Runners, r)
	}
	return l
}

func stateOf(m replica.Member, held int, ignored bool, now time.Time) State {
	switch {
	case m.IsOver(now):
		return Over
	case m.Lease.Leaving:
		return Leaving
	case !m.Lease.Drained || ignored:
		return Live
	case held > 0:
		return Draining
	}
	return Drained
}

// isIgnored: all replicas that could get shards are drained.
func isIgnored(survey *replica.Survey, now time.Time) bool {
	drained := 0
	for _, m := range survey.Members {
		switch {
		case m.IsOver(now) || m.Lease.Leaving:
		case !m.Lease.Drained:
			return false
		default:
			drained++
		}
	}
	return drained > 0
}

func (l *List) count(clusters []hubv1.Cluster, holders []shards.Holder) {
	for i := range clusters {
		if r := l.find(holders[shards.Of(clusters[i].UID, len(holders))].Name); r != nil {
			r.Clusters++
		}
	}
}

func (l *List) find(name string) *Runner {
	at := slices.IndexFunc(l.Runners, func(r Runner) bool { return r.Name == name })
	if at < 0 {
		return nil
	}
	return &l.Runners[at]
}

// markLeader marks none without the Lease, or the permission to read it.
func (h *Hub) markLeader(ctx context.Context, l *List) error {
	if h.LeaderLease == "" {
		return nil
	}
	var lease coordinationv1.Lease
	err := h.Cluster.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.LeaderLease}, &lease)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return h.Cluster.Explain(fmt.Errorf("read the Lease of the replica that leads: %w", err))
	case lease.Spec.HolderIdentity == nil || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil:
		return nil
	}
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_") // A name of a replica has no underscore.
	isOver := time.Since(lease.Spec.RenewTime.Time) >= time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second
	if r := l.find(name); r != nil && !isOver {
		r.RunsOnce = true
	}
	return nil
}
