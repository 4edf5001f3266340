// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/audit"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/mode"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/sharing"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/eventseries"
)

// share of the Clusters. A hub that has all of them has none.
type share struct {
	fleet   *sharing.Fleet // nil: the hub has all Clusters
	leading *leadership    // decides when this replica runs what runs once
	mode    *mode.Sharded  // decides when replicas work
	endMode func()
	cancel  context.CancelFunc
	leaving chan struct{} // closed when this replica begins to leave the others
	ended   chan struct{} // closed when the fleet has ended
	err     error         // read it only after ended
	hub     client.Client // set by attach
}

func newShare(o Options, alive func() error) (*share, error) {
	s := &share{ended: make(chan struct{})}
	if !o.Sharing.Enabled {
		return s, nil
	}
	var err error
	changes := o.modeOptions()
	changes.Every = modeEvery
	if s.mode, err = mode.NewSharded(changes); err != nil {
		return nil, err
	}
	s.leaving = make(chan struct{})
	s.fleet, err = sharing.New(sharing.Options{
		Config: o.Config, Namespace: o.CredentialsNamespace, Replica: o.Registry.Replica, Labels: o.Sharing.Labels,
		Count:  o.Sharing.Shards,
		Timing: o.Sharing.Timing, LeaveTimeout: o.Sharing.LeaveTimeout, Alive: alive, Mode: s.mode,
		Log:         o.Log.WithName("sharing"),
		ForgetAfter: o.Sharing.ForgetAfter,
		Forget: func(ctx context.Context, replica string) error {
			return partreport.Forget(ctx, s.hub, o.CredentialsNamespace, replica)
		},
	})
	if err != nil {
		return nil, err
	}
	valid := s.check()
	if s.leading, err = newLeadership(o, func() error { return errors.Join(alive(), valid()) }); err != nil {
		return nil, err
	}
	s.leading.permit, s.leading.valid = s.awaitLease, valid
	return s, nil
}

// awaitLease's context ends with Sharded mode.
func (s *share) awaitLease(ctx context.Context) (permitted context.Context, err error) {
	for permitted, err = s.mode.Await(ctx); err == nil && s.fleet.Replicas().Check() != nil; permitted, err = s.mode.Await(ctx) {
		pause(ctx, leaseEvery)
	}
	return permitted, err
}

const leaseEvery = 200 * time.Millisecond // leaseEvery is between looks whether this replica has its Lease.

const modeEvery = 5 * time.Second // modeEvery is between looks at the mode.

func (o Options) modeOptions() mode.Options {
	return mode.Options{
		Config: o.Config, Namespace: o.Election.Namespace, Name: o.Election.ID, Installation: o.CredentialsNamespace,
		Identity: o.identity, Duration: o.Election.LeaseDuration, Log: o.Log.WithName("mode"),
	}
}

// check is nil for a hub that has all Clusters.
func (s *share) check() func() error {
	if s.fleet == nil {
		return nil
	}
	return s.fleet.Replicas().Check
}

func (s *share) adopt(o *Options) {
	if s.fleet != nil {
		o.Registry.Gate, o.Registry.Alive, o.leader = s.fleet.Gate, s.fleet.IsAlive, s.leading
		o.Registry.Overloaded = s.fleet.IsLate
	}
}

// guard is before the hub's own clients.
func (s *share) guard(mgr *managerOptions) {
	if s.fleet != nil {
		mgr.config.Wrap(s.fleet.Guard)
	}
}

func (s *share) option() fx.Option {
	if s.fleet == nil {
		return fx.Options()
	}
	return fx.Options(
		fx.Provide(func() cluster.Share { return s.fleet }),
		fx.Invoke(s.attach),
	)
}

// attach also adds the audit of Clusters whose runner has ended.
func (s *share) attach(remotes *registry.Registry, mgr ctrl.Manager, journal *cluster.Journal, metrics prometheus.Registerer) error {
	s.hub = mgr.GetClient()
	if err := s.fleet.Attach(remotes, mgr.GetCache(), journal); err != nil {
		return err
	}
	auditor := audit.New(audit.Options{
		Replicas: s.fleet.Replicas(), Clusters: mgr.GetCache(), Client: mgr.GetClient(),
		Events: eventseries.ByNote(mgr.GetEventRecorder(audit.FieldManager), mgr.GetScheme()),
		Log:    mgr.GetLogger().WithName("audit"),
	})
	for _, one := range []prometheus.Collector{s.fleet, auditor} {
		if err := metrics.Register(one); err != nil {
			return fmt.Errorf("register the metrics of a share: %w", err)
		}
	}
	return mgr.Add(auditor)
}

func (s *share) start(ctx context.Context) {
	if s.fleet == nil {
		return
	}
	s.endMode = background(ctx, s.mode.Run)
	s.leading.start(ctx)
	ctx, s.cancel = context.WithCancel(ctx)
	go func() {
		defer close(s.ended)
		s.err = s.fleet.Run(ctx)
	}()
}

func (s *share) over() <-chan struct{} {
	if s.fleet == nil {
		return nil
	}
	return s.ended
}

// finish ends what runs once first, since a replica whose Lease has ended runs nothing, then hands over while the manager runs.
func (s *share) finish(ctx context.Context) error {
	if s.fleet == nil {
		return nil
	}
	close(s.leaving)
	s.leading.finish(ctx)
	s.cancel()
	<-s.ended
	s.endMode()
	return s.err
}

func (s *share) waiting() string {
	if s.fleet == nil {
		return ""
	}
	return s.mode.Waiting()
}
