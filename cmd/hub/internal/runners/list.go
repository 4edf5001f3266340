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

// requestsWithin limits the requests of one look at the objects of a hub.
const requestsWithin = 30 * time.Second

// Hub is a hub whose replicas share its Clusters.
type Hub struct {
	Cluster *access.Cluster
	// Namespace is the namespace of the Leases of the replicas.
	Namespace string
	// ModeLease is the name of the Lease of leader mode. Default: it is not read, and a hub that has been in Sharded mode counts as
	// one that is.
	ModeLease string
	// LeaderLease is the name of the Lease of the replica that runs what runs once. Default: it is not read.
	LeaderLease string
}

// State is the state of a replica.
type State string

// The states. A replica has the first one that applies.
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
	// Drained says that an administrator wants it to have no shards. The hub ignores that in a List with Ignored.
	Drained bool
	// Incarnation is empty if the replica has ended in good order, or another one has ended its incarnation.
	Incarnation string
	// Shards are the shards whose records name it, in ascending order.
	Shards []int
	// Clusters is the number of Clusters in these shards.
	Clusters int
	// Assigns says that it writes the assignment of shards, and RunsOnce that it runs registration and the hub parts that run
	// once.
	Assigns, RunsOnce bool
	// Labels are its labels, for Clusters with spec.runner.
	Labels map[string]string
	// Version is the version of its program. It is empty if its Lease does not say it, as that of an older hub.
	Version string
	// Renewed is the time of the last renewal of its Lease, by its clock.
	Renewed time.Time
}

// List has the replicas of a hub.
type List struct {
	// Runners are the replicas that have a Lease, sorted by name. The Leases of replicas that have ended remain for an hour.
	Runners []Runner
	// Shards is the number of all shards.
	Shards int
	// Unheld are the shards without a replica that is not over, in ascending order.
	Unheld []int
	// Ignored says that all live replicas are drained, so that the hub ignores it.
	Ignored bool

	hasClusters bool
}

// List reads the replicas of the hub. It blocks for 30 seconds at most. The error matches replica.ErrNotSharded if the replicas
// of the hub do not share its Clusters. An error that comes with a List says what the List lacks.
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

// look reads the replicas without their Clusters.
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

// checkMode returns an error if the hub is in leader mode now. Its Leases of replicas may be left from before. The mode of a hub
// without that Lease is not known.
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

// listOf returns what a survey says at a moment.
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

// isIgnored reports whether all replicas that could get shards are drained.
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

// count adds the numbers of Clusters.
func (l *List) count(clusters []hubv1.Cluster, holders []shards.Holder) {
	for i := range clusters {
		if r := l.find(holders[shards.Of(clusters[i].UID, len(holders))].Name); r != nil {
			r.Clusters++
		}
	}
}

// find returns a replica, or nil.
func (l *List) find(name string) *Runner {
	at := slices.IndexFunc(l.Runners, func(r Runner) bool { return r.Name == name })
	if at < 0 {
		return nil
	}
	return &l.Runners[at]
}

// markLeader marks the replica that runs what runs once. Without the permission to read its Lease, or without the Lease, there
// is no mark.
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
