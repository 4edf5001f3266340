// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/registry/liveness"
)

// Setup adds the controller to the hub's manager. It sends no requests.
func Setup(p Params) error {
	if p.Registry == nil {
		return errors.New("set up the registration controller: Params.Registry is required")
	}
	m := &reconciler{
		Client:   p.Manager.GetClient(),
		cache:    p.Manager.GetCache(),
		live:     p.Manager.GetAPIReader(),
		place:    evidence.Place{Reader: p.Manager.GetAPIReader(), Mapper: p.Manager.GetRESTMapper()},
		admit:    p.Registry.AdmitRemoval,
		events:   hubcontroller.NewRecorder(p.Manager),
		settings: p.Settings.withDefaults(),
	}
	mgr := p.Manager
	err := builder.TypedControllerManagedBy[registration](mgr).
		Named("registration").
		WatchesMetadata(&corev1.Secret{}, handler.TypedEnqueueRequestsFromMapFunc(registrationsOfSecret)).
		Watches(&hubv1.Cluster{}, handler.TypedEnqueueRequestsFromMapFunc(m.registrationsOfCluster),
			builder.WithPredicates(predicate.Or[client.Object](
				predicate.GenerationChangedPredicate{},
				predicate.AnnotationChangedPredicate{},
				predicate.LabelChangedPredicate{},
			))).
		WithOptions(hubcontroller.Options(m.settings.Concurrency, liveness.Queue[registration](p.Monitor, liveness.Subject{Controller: "registration"}))).
		WithLogConstructor(func(r *registration) logr.Logger {
			if r == nil {
				return hubcontroller.Logger(mgr, "registration")
			}
			return hubcontroller.Logger(mgr, "registration").WithValues("cluster", r.Cluster, "secret", r.Secret)
		}).
		Complete(m)
	if err != nil {
		return fmt.Errorf("set up the registration controller: %w", err)
	}
	return nil
}
