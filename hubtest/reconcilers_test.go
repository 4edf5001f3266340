// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/reconcilers/guard"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
	"github.com/clusterfx/clusterfx/registry"
)

// A module whose hub part adds its own kind to the scheme has a pipeline and a guard for that kind, in the hub and in
// remotes, regardless of the order of its options.
func TestHub_ReconcilersOfAKindThatTheHubPartAdds(t *testing.T) {
	t.Parallel()
	reconcilers := fx.Options(
		pipeline.Module(pipeline.Options[*Widget]{Name: "stamps"}),
		pipeline.AsSet[*Widget]("stamps", func() pipeline.Set[*Widget] {
			return pipeline.Set[*Widget]{
				Name: "all", Handles: func(*Widget) bool { return true },
				Resources: []pipeline.Resource[*Widget]{stamp{}},
			}
		}),
		guard.Module(guard.Options[*Widget]{Name: "seals"}),
		guard.AsFactory[*Widget]("seals", func() guard.Factory[*Widget] {
			return guard.Factory[*Widget]{
				Name: "seal", ConditionType: "Sealed",
				New: func(_ context.Context, c *guard.Controller[*Widget]) (guard.Provider, error) { return seal{c}, nil },
			}
		}),
	)
	kinds := fx.Invoke(addWidgets)
	rules := []rbacv1.PolicyRule{{APIGroups: []string{widgetGroup, "coordination.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	for order, part := range map[string]fx.Option{
		"the kinds first": fx.Options(kinds, reconcilers), "the kinds last": fx.Options(reconcilers, kinds),
	} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Scheme(addWidgets),
				hubtest.HubCRDs(widgetCRDs), hubtest.RemoteCRDs(widgetCRDs),
				hubtest.Modules(registry.NewModule("widgets", registry.ModuleOptions{Hub: part, Remote: reconcilers, Rules: rules})))
			for _, at := range []interface {
				Create(objects ...client.Object)
				WaitFor(object client.Object, check func() error)
			}{hub, hub.Remote("edge")} {
				w := newWidget("w")
				at.Create(w)
				at.WaitFor(w, func() error {
					for _, f := range []string{pipeline.Prefix + "stamps", guard.Prefix + "seals"} {
						if !slices.Contains(w.Finalizers, f) {
							return fmt.Errorf("got finalizers %v", w.Finalizers)
						}
					}
					return nil
				})
			}
		})
	}
}

// stamp is a resource without external state.
type stamp struct{}

func (stamp) Name() string                                 { return "stamp" }
func (stamp) EnsureCreated(context.Context, *Widget) error { return nil }
func (stamp) EnsureDeleted(context.Context, *Widget) error { return nil }

// seal is a provider with a task that does nothing.
type seal struct{ c *guard.Controller[*Widget] }

func (s seal) Reconcile(ctx context.Context) (*reconcile.Result, error) {
	if s.c.Settled() != "" {
		return nil, nil
	}
	return nil, s.c.Guard(ctx, "seal", func(context.Context, guard.Attempt) (guard.Outcome, error) {
		return guard.Outcome{Status: metav1.ConditionTrue, Reason: "Sealed"}, nil
	})
}

func (s seal) Terminate(context.Context) (*reconcile.Result, error) { return nil, nil }
