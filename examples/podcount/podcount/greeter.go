// SPDX-License-Identifier: Apache-2.0

package podcount

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/clusterfx/clusterfx/registry"
)

// greeting is the ConfigMap in the hub, and its copy in every remote.
const greeting = "greeting"

const owner = client.FieldOwner("podcount")

// Greet adds the greeter to the hub. In the hub's App, unnamed dependencies belong to the hub, and the registry leads
// to the remotes.
func Greet(hub ctrl.Manager, remotes *registry.Registry) error {
	g := &greeter{hub: hub.GetClient(), remotes: remotes}
	return registry.TypedControllerManagedBy[registry.ClusterName](hub).
		Named("greeter").
		Watches(&corev1.ConfigMap{}, handler.TypedEnqueueRequestsFromMapFunc(g.everyRemote)).
		WatchesRawSource(registry.Source(remotes, readyRemote)).
		Complete(g)
}

// greeter copies the greeting to the remotes. A request is the name of a remote.
type greeter struct {
	hub     client.Reader
	remotes *registry.Registry
}

// everyRemote makes a request for each remote when the greeting has changed.
func (g *greeter) everyRemote(_ context.Context, changed client.Object) []registry.ClusterName {
	if changed.GetNamespace() != metav1.NamespaceDefault || changed.GetName() != greeting {
		return nil
	}
	var all []registry.ClusterName
	for _, remote := range g.remotes.List() {
		all = append(all, remote.Name)
	}
	return all
}

// readyRemote makes a request for a remote that has just become ready.
func readyRemote(e registry.Event) []registry.ClusterName {
	if e.Kind != registry.EventReady {
		return nil
	}
	return []registry.ClusterName{e.Name}
}

// Reconcile copies the greeting of the hub to one remote.
func (g *greeter) Reconcile(ctx context.Context, name registry.ClusterName) (ctrl.Result, error) {
	var source corev1.ConfigMap
	err := g.hub.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: greeting}, &source)
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	err = g.remotes.WithClient(ctx, name, func(ctx context.Context, remote client.Client) error {
		copied := corev1ac.ConfigMap(greeting, metav1.NamespaceDefault).WithData(source.Data)
		return remote.Apply(ctx, copied, owner, client.ForceOwnership)
	})
	switch {
	case errors.Is(err, registry.ErrNotReady), errors.Is(err, registry.ErrNotFound), errors.Is(err, registry.ErrElsewhere):
		return ctrl.Result{}, nil // When it is ready here, its event comes.
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("greet %s: %w", name, err)
	}
	return ctrl.Result{}, nil
}
