// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

const (
	// calm is between two passes while each Cluster has a runner with a Lease. It is shorter than the shortest grace.
	calm = 4 * time.Second
	busy = time.Second // busy is the time between two passes while one has not.
	// mostWrites is how many Clusters one pass marks.
	mostWrites  = 50
	passTimeout = 10 * time.Second
)

// Replicas is what an Auditor uses of a replica.Replica.
type Replicas interface {
	Observe() (o replica.Observation, ok bool)
	LeaseOf(name string) (found shards.Lease, since time.Time)
	ReadLease(ctx context.Context, name string) error
}

// Options describe an Auditor. All of them are required.
type Options struct {
	Replicas Replicas
	Clusters client.Reader
	// Client writes while this replica has a valid Lease.
	Client client.Client
	Events events.EventRecorder
	Log    logr.Logger
}

// Auditor marks the Clusters whose runner has ended. It is a runnable of the hub's manager, and a collector of its metrics.
type Auditor struct {
	replicas Replicas
	list     func(context.Context) ([]hubv1.Cluster, error)
	write    func(ctx context.Context, cluster *hubv1.Cluster, message string) error
	log      logr.Logger

	began    time.Time            // since when this replica has had a valid Lease at each pass
	tried    map[types.UID]string // the version of each suspect that was tried last; it is not tried again
	refusing bool
	marks    prometheus.Counter
	refusals prometheus.Counter
}

var (
	_ manager.LeaderElectionRunnable = (*Auditor)(nil)
	_ prometheus.Collector           = (*Auditor)(nil)
)

// New returns an Auditor.
func New(o Options) *Auditor {
	w := &writer{client: o.Client, events: o.Events}
	return newAuditor(o.Replicas, o.Log, func(ctx context.Context) ([]hubv1.Cluster, error) {
		var all hubv1.ClusterList
		err := o.Clusters.List(ctx, &all, client.UnsafeDisableDeepCopy)
		return all.Items, err
	}, w.mark)
}

func newAuditor(
	replicas Replicas, log logr.Logger, list func(context.Context) ([]hubv1.Cluster, error), write func(context.Context, *hubv1.Cluster, string) error,
) *Auditor {
	return &Auditor{
		replicas: replicas, list: list, write: write, log: log,
		marks: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clusterfx_audit_marks_total", Help: "Clusters that this replica has marked, because their runner has ended.",
		}),
		refusals: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clusterfx_audit_refusals_total",
			Help: "Passes of the audit that marked none of the Clusters that no replica has, because they are more than five and more than a fifth of all.",
		}),
	}
}

// Describe implements prometheus.Collector.
func (a *Auditor) Describe(to chan<- *prometheus.Desc) {
	a.marks.Describe(to)
	a.refusals.Describe(to)
}

// Collect implements prometheus.Collector.
func (a *Auditor) Collect(to chan<- prometheus.Metric) {
	a.marks.Collect(to)
	a.refusals.Collect(to)
}

// NeedLeaderElection is false: each replica audits.
func (a *Auditor) NeedLeaderElection() bool { return false }

// Start has one pass after the other until ctx ends.
func (a *Auditor) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		next, err := a.pass(ctx)
		if err != nil && ctx.Err() == nil {
			a.log.Error(err, "Failed to audit the Clusters; the audit continues")
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

func (a *Auditor) pass(ctx context.Context) (next time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	o, ok := a.replicas.Observe()
	if !ok {
		a.began = time.Time{}
		return calm, nil
	}
	if a.began.IsZero() {
		a.began = time.Now()
	}
	all, err := a.list(ctx)
	if err != nil {
		return calm, fmt.Errorf("list the Clusters: %w", err)
	}
	look := &look{Observation: o, leaseOf: a.replicas.LeaseOf, now: time.Now(), began: a.began}
	found := look.suspects(all)
	a.forget(found)
	if len(found) == 0 {
		a.refusing = false
		return calm, nil
	}
	due := look.due(found)
	n := look.unserved(found)
	isRefused := isTooMany(n, len(all))
	if isRefused {
		a.refuse(n, len(all))
		due = slices.DeleteFunc(due, func(s suspect) bool { return s.holder == "" })
	}
	a.refusing = isRefused
	return busy, a.mark(ctx, due)
}

func (a *Auditor) forget(found []suspect) {
	tried := map[types.UID]string{}
	for _, s := range found {
		if version, was := a.tried[s.cluster.UID]; was {
			tried[s.cluster.UID] = version
		}
	}
	a.tried = tried
}

func (a *Auditor) refuse(n, all int) {
	a.refusals.Inc()
	if !a.refusing {
		a.log.Info("More than five and more than a fifth of all Clusters have no runner and no replica that takes them; none of them is marked. "+
			"See the runbook of the alert ClusterfxShardNotServed", "unserved", n, "clusters", all)
	}
}

// mark continues after a failure, until ctx ends, and returns all of them.
func (a *Auditor) mark(ctx context.Context, due []suspect) error {
	verified := map[string]bool{} // also those whose read has failed
	writes := 0
	var errs []error
	for _, s := range due {
		if ctx.Err() != nil {
			break
		}
		version := s.cluster.ResourceVersion
		if a.tried[s.cluster.UID] == version {
			continue // The cache has not seen yet what the last try has written, or has met.
		}
		isOver, known := verified[s.runner]
		if !known {
			var err error
			if isOver, err = a.verify(ctx, s.runner); err != nil {
				errs = append(errs, fmt.Errorf("read the Lease of the runner of %s: %w", s.cluster.Name, err))
			}
			verified[s.runner] = isOver
		}
		if !isOver {
			continue
		}
		if writes++; writes > mostWrites {
			break
		}
		if err := a.markOne(ctx, s); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// verify reads the Lease from the API server.
func (a *Auditor) verify(ctx context.Context, runner string) (isOver bool, err error) {
	if err := a.replicas.ReadLease(ctx, runner); err != nil {
		return false, err
	}
	isOver = a.isStillOver(runner)
	return isOver, nil
}

func (a *Auditor) isStillOver(runner string) bool {
	o, ok := a.replicas.Observe()
	if !ok {
		return false
	}
	look := &look{Observation: o, leaseOf: a.replicas.LeaseOf, now: time.Now()}
	return look.verdictOn(runner).isOver
}

func (a *Auditor) markOne(ctx context.Context, s suspect) error {
	err := a.write(ctx, s.cluster, s.message())
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // It has changed since the cache has seen it.
		a.tried[s.cluster.UID] = s.cluster.ResourceVersion
		return nil
	case err != nil:
		return fmt.Errorf("mark %s: %w", s.cluster.Name, err)
	}
	a.tried[s.cluster.UID] = s.cluster.ResourceVersion
	a.marks.Inc()
	a.log.Info("Marked a Cluster whose runner has ended", "cluster", s.cluster.Name, "runner", s.runner, "holder", s.holder)
	return nil
}
