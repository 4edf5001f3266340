// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

func TestNew(t *testing.T) {
	t.Parallel()
	inEurope := func(c *hubv1.Cluster) { c.Labels = map[string]string{"region": "eu"} }
	hub := hubtest.New(t, hubtest.Clusters(inEurope), hubtest.Remotes("a"), hubtest.Modules(echo()))
	a := hub.Remote("a")
	testkit.NoError(t, ask(t.Context(), hub, a), "remote is not Ready when New returns")
	b := hub.AddRemote("b", func(c *hubv1.Cluster) { c.Labels["stage"] = "test" })
	expectEcho(t, hub, a, "from a")
	expectEcho(t, hub, b, "from b")
	b.WaitReady()
	if err := errors.Join(equal(a.Cluster().Labels["region"], "eu"), equal(b.Cluster().Labels["region"], "eu"),
		equal(b.Cluster().Labels["stage"], "test"), equal(a.Cluster().Status.ModuleSummary, "1/1")); err != nil {
		t.Error(err)
	}
	if id := a.Cluster().Status.ID; id == "" || id == b.Cluster().Status.ID {
		t.Errorf("cluster IDs of the remotes are empty or equal: %q", id)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(echo())) // the default
	edge := hub.Remote("edge")
	expectEcho(t, hub, edge, "hello")
	edge.WaitModule("echo", hubv1.ModuleRunning)
	err := hub.Registry().WithClient(t.Context(), "edge", func(ctx context.Context, c client.Client) error {
		return c.Delete(ctx, configMap("shout"))
	})
	if !apierrors.IsForbidden(err) {
		t.Errorf("request that no module declares: got %v, want Forbidden", err)
	}
	edge.RotateToken()
	expectEcho(t, hub, edge, "hello again")
}

func TestHubOptions(t *testing.T) {
	fleettest.Slow(t, "./hubtest TestWaitHeld")
	t.Parallel()
	const elsewhere = "elsewhere"
	hub := hubtest.New(t, hubtest.Modules(echo()), hubtest.HubOptions(func(o *app.Options) {
		o.CredentialsNamespace = elsewhere
		o.Registry.Limits.MaxObjects = 1
	}))
	edge := hub.NewRemote("edge")
	edge.Create(configMap("one"), configMap("two"))
	edge.Register()
	edge.WaitNotReady(hubv1.ReasonOverBudget)
}

// The hub learns of a kind from its module, as in production.
func TestCRDs(t *testing.T) {
	fleettest.Slow(t, "./hubtest TestPool_Cleans")
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(polish()),
		hubtest.HubCRDs(widgetCRDs), hubtest.RemoteCRDs(widgetCRDs), hubtest.Scheme(addWidgets))
	edge := hub.Remote("edge")
	w := newWidget("w")
	edge.Create(w)
	edge.WaitFor(w, func() error { return equal(w.Labels["polished"], "yes") })
	hub.Create(newWidget("on-the-hub"))
	bare := hub.NewRemote("bare")
	bare.Create(newWidget("w"))
}

// polish is a module that labels every widget.
func polish() registry.Module {
	return registry.NewModule("polish", registry.ModuleOptions{
		HubRuns: registry.WithRemotes,
		Hub:     fx.Invoke(addWidgets), Remote: fx.Invoke(polishAll),
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{widgetGroup}, Resources: []string{"widgets"}, Verbs: []string{"list", "watch", "patch"}}},
	})
}

func equal(got, want string) error {
	if got != want {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}
