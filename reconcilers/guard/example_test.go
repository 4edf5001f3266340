// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/fx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/guard"
	"github.com/clusterfx/clusterfx/registry"
)

// numbers is an external system for the examples: a telephone company that assigns each caller a new number.
type numbers struct{}

func (numbers) rent(_ context.Context, key string) (string, error)    { return "+49 30 " + key[:8], nil }
func (numbers) find(_ context.Context, key string) (string, bool)     { return "", key == "" }
func (numbers) giveUp(_ context.Context, number string) error         { return nil }
func (numbers) ofCluster(_ context.Context, name string) (n string)   { return name }
func (numbers) direct(_ context.Context, number, server string) error { return nil }

// hotline is a provider that rents a telephone number for a Cluster, and directs it to the Cluster's server.
type hotline struct {
	*guard.Controller[*hubv1.Cluster]
	company numbers
}

// Reconcile performs one step at a time, and continues after the last finished step.
func (h hotline) Reconcile(ctx context.Context) (*reconcile.Result, error) {
	switch h.Settled() {
	case "":
		return &reconcile.Result{}, h.Guard(ctx, "rent a number", h.rent)
	case "Rented":
		if h.Object().Spec.Server == "" {
			return &reconcile.Result{RequeueAfter: time.Minute}, nil
		}
		return &reconcile.Result{}, h.Guard(ctx, "direct the number", h.direct)
	}
	return nil, nil // settled: the next condition follows
}

// rent must never rent two numbers.
func (h hotline) rent(ctx context.Context, a guard.Attempt) (guard.Outcome, error) {
	if a.Recovering { // Without idempotency keys: the company stores the attempt's ID as a note.
		if number, ok := h.company.find(ctx, a.ID); ok {
			return guard.Outcome{Status: metav1.ConditionFalse, Reason: "Rented", Message: number}, nil
		}
	}
	number, err := h.company.rent(ctx, a.ID)
	return guard.Outcome{Status: metav1.ConditionFalse, Reason: "Rented", Message: number}, err
}

func (h hotline) direct(ctx context.Context, _ guard.Attempt) (guard.Outcome, error) {
	err := h.company.direct(ctx, h.company.ofCluster(ctx, h.Object().Name), h.Object().Spec.Server)
	return guard.Outcome{Status: metav1.ConditionTrue, Reason: "Connected"}, err
}

// Terminate returns the number. Its attempt may have begun as an attempt to rent a number.
func (h hotline) Terminate(ctx context.Context) (*reconcile.Result, error) {
	if h.Settled() == "Terminated" {
		return nil, nil
	}
	return nil, h.Guard(ctx, "give up the number", func(ctx context.Context, a guard.Attempt) (guard.Outcome, error) {
		number := h.company.ofCluster(ctx, h.Object().Name)
		if late, ok := h.company.find(ctx, a.ID); a.Recovering && ok {
			number = late
		}
		return guard.Outcome{Status: metav1.ConditionFalse, Reason: "Terminated"}, h.company.giveUp(ctx, number)
	})
}

// A module contributes a factory of providers to a host. Clusters have no locks in their status, so their locks are in
// Leases.
func Example() {
	newHotline := func(company numbers) guard.Factory[*hubv1.Cluster] {
		return guard.Factory[*hubv1.Cluster]{
			Name: "hotline", ConditionType: "HotlineReady",
			Handles: func(c *hubv1.Cluster) bool { return c.Labels["example.com/hotline"] == "true" },
			New: func(_ context.Context, c *guard.Controller[*hubv1.Cluster]) (guard.Provider, error) {
				return hotline{c, company}, nil
			},
		}
	}
	hotlines := fx.Options(
		guard.Module(guard.Options[*hubv1.Cluster]{
			Name:       "hotlines",
			Conditions: func(c *hubv1.Cluster) *[]metav1.Condition { return &c.Status.Conditions },
		}),
		guard.AsFactory[*hubv1.Cluster]("hotlines", newHotline),
	)
	hub := fx.Options(
		fx.NopLogger,
		fx.Provide(func() (ctrl.Manager, error) { return ctrl.NewManager(nil, ctrl.Options{}) }),
		fx.Supply(numbers{}),
	)
	fmt.Println("what is missing:", fx.ValidateApp(hub, hotlines))
	// Output: what is missing: <nil>
}

// A custom reconciler uses a host to guard actions that must not happen twice.
func ExampleHost_Controller() {
	setup := func(mgr ctrl.Manager) error {
		host, err := guard.NewHost(mgr.GetClient(), mgr.GetAPIReader(), guard.Options[*hubv1.Cluster]{Name: "invoices"})
		if err != nil {
			return err
		}
		// No other controller deletes the Leases of deleted Clusters.
		if err := mgr.Add(host.Sweeper(mgr.GetLogger())); err != nil {
			return err
		}
		invoice := func(ctx context.Context, c *hubv1.Cluster) (reconcile.Result, error) {
			controller, err := host.Controller(ctx, c, "example.com/Invoiced")
			if err != nil || controller.Settled() == "Sent" {
				return reconcile.Result{}, err
			}
			return reconcile.Result{}, controller.Guard(ctx, "send the invoice", send)
		}
		return registry.ControllerManagedBy(mgr).Named("invoices").
			For(&hubv1.Cluster{}, builder.WithPredicates(host.Predicate())). // otherwise a failed Guard is retried at once
			Complete(reconcile.AsReconciler(mgr.GetClient(), invoiceFunc(invoice)))
	}
	_ = setup
}

type invoiceFunc func(context.Context, *hubv1.Cluster) (reconcile.Result, error)

func (f invoiceFunc) Reconcile(ctx context.Context, c *hubv1.Cluster) (reconcile.Result, error) {
	return f(ctx, c)
}

func send(ctx context.Context, a guard.Attempt) (guard.Outcome, error) {
	if _, ok := (numbers{}).find(ctx, a.ID); ok && a.Recovering {
		return guard.Outcome{Status: metav1.ConditionTrue, Reason: "Sent"}, nil
	}
	return guard.Outcome{Status: metav1.ConditionTrue, Reason: "Sent"}, nil
}

// Dependents of an object are created through the controller, which sets the owner, the namespace, the label and a
// stable name. Confidential data belongs in a Secret.
func ExampleController_Create() {
	task := func(c *guard.Controller[*hubv1.Cluster], secret client.Object) guard.Task {
		return func(ctx context.Context, a guard.Attempt) (guard.Outcome, error) {
			secret.SetGenerateName("token-")
			return guard.Outcome{Status: metav1.ConditionTrue, Reason: "Created"}, c.Create(ctx, secret)
		}
	}
	_ = task
}
