// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/liveness"
)

// Setup adds the controller to the hub's manager. It sends no requests.
func Setup(p Params) error {
	return setup(p, p.Registry)
}

func setup(p Params, remotes remotes) error {
	settings := p.Settings.withDefaults()
	events := hubcontroller.NewRecorder(p.Manager)
	r := &reconciler{
		Client:   p.Manager.GetClient(),
		cache:    p.Manager.GetCache(),
		secrets:  p.Manager.GetAPIReader(),
		remotes:  remotes,
		place:    evidence.Place{Reader: p.Manager.GetAPIReader(), Mapper: p.Manager.GetRESTMapper()},
		share:    everything{},
		suspects: noSuspects{},
		events:   events,
		settings: settings,
		removals: removals{remotes: remotes, within: settings.RemoveWithin},
	}
	r.removals.memory = &r.memory
	if p.Traces == nil {
		p.Traces = noop.NewTracerProvider()
	}
	r.tracer = p.Traces.Tracer("github.com/clusterfx/clusterfx/reconcilers/cluster")
	if p.Journal != nil {
		r.suspects = p.Journal
	}
	if p.Share != nil {
		r.share = p.Share
	}
	r.tunnels = p.Tunnels
	if p.Share != nil && !p.Registry.AllowsDuplicates() {
		r.rivals = &rivals{clusters: p.Manager.GetCache()}
	}
	if p.Metrics != nil {
		if err := p.Metrics.Register(newConditions(p.Manager.GetCache(), r.share, settings.AggregateMetrics)); err != nil {
			return fmt.Errorf("register the metrics of Clusters: %w", err)
		}
	}
	if err := r.addTo(p, registry.Source(p.Registry, requestFor)); err != nil {
		return fmt.Errorf("set up the cluster controller: %w", err)
	}
	return nil
}

// addTo: WithOptions of the builder overwrites earlier options.
func (r *reconciler) addTo(p Params, changes source.Source) error {
	mgr := p.Manager
	if err := mgr.Add(&r.removals); err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("cluster").
		For(&hubv1.Cluster{}, builder.WithPredicates(moreThanInventory())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.memory.usersOf),
			builder.WithPredicates(news(), predicate.ResourceVersionChangedPredicate{})). // not after a list that repeats all
		WatchesRawSource(changes).
		WatchesRawSource(r.removals.requests.Source()).
		WithOptions(hubcontroller.Options(r.settings.Concurrency, liveness.Queue[ctrl.Request](p.Monitor, liveness.Subject{Controller: "cluster"}))).
		WithLogConstructor(func(r *ctrl.Request) logr.Logger {
			if r == nil {
				return hubcontroller.Logger(mgr, "cluster")
			}
			return hubcontroller.Logger(mgr, "cluster").WithValues("cluster", r.Name)
		})
	if roles := r.share.Source(); roles != nil {
		b = b.WatchesRawSource(roles)
	}
	if r.tunnels != nil {
		b = b.WatchesRawSource(r.tunnels.Source())
	}
	if r.rivals != nil {
		b = b.Watches(&hubv1.Cluster{}, r.rivals.changed())
	}
	return b.Complete(r)
}

func requestFor(e registry.Event) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Name: string(e.Name)}}}
}
