// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/mode"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/runners"
)

// lease reports whether a hub works. Without leader election, as in dev, there is no lease, and the report on hub parts
// shows it. In Sharded mode the lease does not expire, and the Leases of the replicas show it.
func (i Installation) lease(ctx context.Context, r *Report, report *partreport.Report) {
	var lease coordinationv1.Lease
	err := i.Hub.Get(ctx, client.ObjectKey{Namespace: i.Namespace, Name: i.Lease}, &lease)
	switch {
	case apierrors.IsNotFound(err) && report != nil && !report.Old():
		r.ok(checkLease, "hub %s works without the lease %s/%s, as it reported %s ago", report.Replica, i.Namespace, i.Lease, report.Age())
		return
	case apierrors.IsNotFound(err):
		r.warn(checkLease, "start a hub, or ignore this if yours runs without --leader-elect", "there is no lease %s/%s", i.Namespace, i.Lease)
		return
	case err != nil:
		r.warn(checkLease, "", "%v", i.Hub.Explain(err))
		return
	}
	if mode.IsSharded(&lease, i.Namespace) {
		i.replicas(ctx, r)
		return
	}
	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		r.fail(checkLease, "start a hub", "no hub holds the lease %s/%s, so no hub works", i.Namespace, i.Lease)
		return
	}
	since := time.Since(spec.RenewTime.Time)
	if since > time.Duration(*spec.LeaseDurationSeconds)*time.Second {
		r.fail(checkLease, "check the hub's Pods and their logs", "%s holds the lease and has not renewed it for %s, so no hub works",
			*spec.HolderIdentity, since.Round(time.Second))
		return
	}
	r.ok(checkLease, "%s is the leader", *spec.HolderIdentity)
}

func (i Installation) replicas(ctx context.Context, r *Report) {
	hub := runners.Hub{Cluster: i.Hub, Namespace: i.Namespace, ModeLease: i.Lease}
	list, err := hub.List(ctx)
	switch {
	case errors.Is(err, replica.ErrNotSharded):
		r.fail(checkLease, adviceReplicas, "the lease belongs to replicas that share the Clusters, and none of them has created the shards yet")
		return
	case err != nil:
		r.warn(checkLease, "", "not everything is known about the replicas: %v", err)
	}
	if list != nil {
		replicas(r, list)
	}
}

// Advice if no replica is live, and if shards have no live holder.
const (
	adviceReplicas = "start replicas of the hub, or check its Pods and their logs"
	adviceUnheld   = "check again in a minute, because live replicas take over within 15 s; then see hub get runners and the logs of the hub's Pods"
)

func replicas(r *Report, list *runners.List) {
	live := 0
	for _, one := range list.Runners {
		if one.State == runners.Live {
			live++
		}
	}
	const idle = "%s live, and %d of %d shards have no live holder, so the apps of their Clusters do not run"
	switch unheld := len(list.Unheld); {
	case live == 0 && unheld == 0:
		r.fail(checkLease, adviceReplicas, "no replica is live: the replicas that hold the shards are about to end")
	case live == 0:
		r.fail(checkLease, adviceReplicas, idle, "no replica is", unheld, list.Shards)
	case unheld == 0:
		r.ok(checkLease, "%s live, and all %d shards have a live holder", countOf(live), list.Shards)
	case unheld == list.Shards:
		r.fail(checkLease, adviceUnheld, idle, countOf(live), unheld, list.Shards)
	default:
		r.warn(checkLease, adviceUnheld, idle, countOf(live), unheld, list.Shards)
	}
	if list.Ignored {
		r.warn(checkLease, "start another replica, or run hub drain REPLICA --cancel for one of them", "all live replicas are drained, so the hub ignores it")
	}
}

// countOf begins a sentence.
func countOf(replicas int) string {
	if replicas == 1 {
		return "1 replica is"
	}
	return strconv.Itoa(replicas) + " replicas are"
}
