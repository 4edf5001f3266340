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
}

// Runner is a replica that has a Lease.
type Runner struct {
	Name string
	// Live: it gets shards.
	Live bool
	// Drained is an administrator's wish, ignored in a List with Ignored.
	Drained bool
	// Shards is how many records name it.
	Shards int
}

// List has the replicas of a hub.
type List struct {
	// Runners are sorted by name. Those of ended replicas remain for an hour.
	Runners []Runner
	Shards  int
	// Unheld is how many shards have no replica that is not over.
	Unheld int
	// Ignored: all live replicas are drained, so that the hub ignores it.
	Ignored bool
}

// List blocks for 30 seconds at most. The error matches replica.ErrNotSharded if replicas do not share the Clusters. An
// error beside a List says what that lacks.
func (h *Hub) List(ctx context.Context) (*List, error) {
	ctx, cancel := context.WithTimeout(ctx, requestsWithin)
	defer cancel()
	return h.look(ctx)
}

func (h *Hub) look(ctx context.Context) (*List, error) {
	if err := h.checkMode(ctx); err != nil {
		return nil, err
	}
	survey, err := replica.ReadSurvey(ctx, h.Cluster, h.Namespace)
	if survey == nil {
		if errors.Is(err, replica.ErrNotSharded) {
			return nil, err
		}
		return nil, h.Cluster.Explain(err)
	}
	return listOf(survey, time.Now()), err
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
	here := map[shards.Holder]bool{}
	held := map[string]int{}
	for _, m := range survey.Members {
		here[shards.Holder{Name: m.Name, Incarnation: m.Lease.Incarnation}] = !m.IsOver(now)
	}
	for _, holder := range survey.Holders {
		held[holder.Name]++
		if !here[holder] {
			l.Unheld++
		}
	}
	for _, m := range survey.Members {
		live := !m.IsOver(now) && !m.Lease.Leaving && (!m.Lease.Drained || l.Ignored)
		l.Runners = append(l.Runners, Runner{Name: m.Name, Live: live, Drained: m.Lease.Drained, Shards: held[m.Name]})
	}
	return l
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

func (l *List) find(name string) *Runner {
	at := slices.IndexFunc(l.Runners, func(r Runner) bool { return r.Name == name })
	if at < 0 {
		return nil
	}
	return &l.Runners[at]
}

func (l *List) noSuch(name string) error {
	if len(l.Runners) == 0 {
		return fmt.Errorf("%s: no replica has a Lease; see whether the Pods of the hub run", name)
	}
	var names []string
	for _, r := range l.Runners {
		names = append(names, r.Name)
	}
	return fmt.Errorf("%s: no replica of this name has a Lease; there are %s", name, strings.Join(names, ", "))
}
