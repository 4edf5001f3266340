// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/fleet"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/internal/writegate"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/eventseries"
)

// share is this hub's part among its replicas. A hub that is alone has no fleet.
type share struct {
	fleet   *fleet.Fleet
	cancel  context.CancelFunc
	leaving chan struct{} // closed when this replica begins to leave the others
	ended   chan struct{} // closed when the fleet has ended; nil without one
	err     error         // read it only after ended
	hub     client.Client // set by attach
}

func newShare(ctx context.Context, o Options, t *tunnels, alive func() error) (*share, error) {
	if o.Alone {
		return &share{}, nil
	}
	s := &share{leaving: make(chan struct{}), ended: make(chan struct{})}
	var err error
	s.fleet, err = fleet.New(fleet.Options{
		Options: replica.Options{
			Config: o.Config, Namespace: o.CredentialsNamespace, Pod: o.Registry.Replica, Labels: o.Labels, Active: o.Active,
			Count: o.Shards, Timing: shards.Timing{Duration: o.LeaseDuration, Deadline: o.RenewDeadline, Retry: o.RetryPeriod},
			LeaveTimeout: o.LeaveTimeout, Alive: alive, Log: o.Log.WithName("replica"), ForgetAfter: o.ForgetAfter, Tunnel: t.advertised(ctx),
			Forget: func(ctx context.Context, pod string) error {
				return partreport.Forget(ctx, s.hub, o.CredentialsNamespace, pod)
			},
		},
		StopTimeout: o.Registry.Limits.StopTimeout,
		Idle: func(ctx context.Context) {
			if s.fleet.Check() != nil {
				return // Its Lease is lost.
			}
			if err := partreport.Forget(ctx, s.hub, o.CredentialsNamespace, o.Registry.Replica); err != nil {
				o.Log.Error(err, "Failed to remove the report of the state of hub parts of a replica without Clusters")
			}
		},
	})
	if t != nil && s.fleet != nil {
		t.replicas = s.fleet.Tunnels
	}
	return s, err
}

// adopt gives the hub its gate and its turns.
func (s *share) adopt(o *hubOptions) {
	if s.fleet != nil {
		o.Registry.Gate, o.Registry.Alive, o.Registry.Overloaded = s.fleet.Gate, s.fleet.IsAlive, s.fleet.IsLate
		o.once, o.withRemotes = s.fleet.Once(), s.fleet.WithRemotes()
	}
}

// guard is before the hub's own clients.
func (s *share) guard(mgr *managerOptions) {
	if s.fleet != nil {
		mgr.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return &writegate.Gate{Next: next, Check: s.fleet.Check}
		})
	}
}

// check is an error while this hub may not write.
func (s *share) check() error {
	if s.fleet == nil {
		return nil
	}
	return s.fleet.Check()
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

func (s *share) attach(remotes *registry.Registry, mgr ctrl.Manager, journal *cluster.Journal, metrics prometheus.Registerer) error {
	s.hub = mgr.GetClient()
	if err := s.fleet.Attach(remotes, mgr.GetCache(), journal); err != nil {
		return err
	}
	if err := metrics.Register(s.fleet); err != nil {
		return fmt.Errorf("register the metrics of a replica: %w", err)
	}
	return mgr.Add(s.fleet.Marks(mgr.GetClient(), eventseries.ByNote(mgr.GetEventRecorder(fleet.MarkManager), mgr.GetScheme())))
}

func (s *share) start(ctx context.Context) {
	if s.fleet == nil {
		return
	}
	ctx, s.cancel = context.WithCancel(ctx)
	go func() {
		defer close(s.ended)
		s.err = s.fleet.Run(ctx)
	}()
}

// finish hands over while the manager runs.
func (s *share) finish() error {
	if s.fleet == nil {
		return nil
	}
	close(s.leaving)
	s.cancel()
	<-s.ended
	return s.err
}
