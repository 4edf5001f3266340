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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/rbac"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestNew(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("a", "b"), hubtest.Modules(echo()))
	for _, name := range []string{"a", "b"} {
		if err := ask(t.Context(), hub, hub.Remote(name)); err != nil {
			t.Errorf("remote %s is not Ready when New returns: %v", name, err)
		}
		expectEcho(t, hub, hub.Remote(name), "from "+name)
	}
	if err := equal(hub.Remote("a").Cluster().Status.ModuleSummary, "1/1"); err != nil {
		t.Errorf("module summary: %v", err)
	}
	if id := hub.Remote("a").Cluster().Status.ID; id == "" || id == hub.Remote("b").Cluster().Status.ID {
		t.Errorf("cluster IDs of the remotes are empty or equal: %q", id)
	}
	t.Run("another test's view of it", func(t *testing.T) {
		hub := hub.With(t)
		expectEcho(t, hub, hub.Remote("a"), "again")
	})
}

// Several hubs in one process are independent, even if their remotes have the same names.
func TestNew_Parallel(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		t.Run(fmt.Sprint("hub ", i), func(t *testing.T) {
			t.Parallel()
			hub := hubtest.New(t, hubtest.Remotes("a"), hubtest.Modules(echo()))
			expectEcho(t, hub, hub.Remote("a"), fmt.Sprint("hub ", i))
			if known := len(hub.Registry().List()); known != 1 {
				t.Errorf("hub knows %d remotes, want 1", known)
			}
		})
	}
}

func TestHub_Restart(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(echo()))
	edge := hub.Remote("edge")
	before := hub.Registry()
	hub.Restart()
	edge.WaitReady()
	if err := ask(t.Context(), hub, edge); err != nil {
		t.Errorf("WaitReady returns before the new hub is ready: %v", err)
	}
	expectEcho(t, hub, edge, "after")
	if hub.Registry() == before {
		t.Error("registry is the registry of the previous hub")
	}
	if err := before.Ensure("edge", state.Desired{}); !errors.Is(err, registry.ErrClosed) {
		t.Errorf("Ensure of the previous registry: got %v, want ErrClosed", err)
	}
}

func TestHub_StopAndStart(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(echo()))
	edge := hub.Remote("edge")
	hub.Stop()
	edge.Create(shout("while nobody listened"))
	edge.Change(func(c *hubv1.Cluster) { c.Labels = map[string]string{"region": "eu"} })
	hub.Start()
	edge.WaitReady()
	heard := configMap("echo-edge")
	hub.WaitFor(heard, func() error { return equal(heard.Data["text"], "while nobody listened") })
	info, _ := hub.Registry().Status("edge")
	if err := equal(info.Labels["region"], "eu"); err != nil {
		t.Error(err)
	}
}

// A fault can also affect the hub's own API server.
func TestHub_Faults(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(echo()))
	edge := hub.Remote("edge")
	hub.Refuse()
	edge.Create(shout("unheard"))
	err := hub.Registry().WithClient(t.Context(), "edge", func(ctx context.Context, c client.Client) error {
		return c.Get(ctx, client.ObjectKeyFromObject(configMap("shout")), configMap("shout"))
	})
	if client.IgnoreNotFound(err) != nil {
		t.Errorf("request to the remote fails while the hub's API server is unreachable: %v", err)
	}
	heard := configMap("echo-edge")
	if err := hub.Client().Get(t.Context(), client.ObjectKeyFromObject(heard), heard); !apierrors.IsNotFound(err) {
		t.Errorf("reading the module's object on the unreachable hub: got %v, want NotFound", err)
	}
	hub.Repair()
	hub.WaitFor(heard, func() error { return equal(heard.Data["text"], "unheard") })
}

func TestRemote_RegisterAndDeregister(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Modules(echo()))
	edge := hub.NewRemote("edge")
	edge.Create(shout("before anybody listened"))
	if _, known := hub.Registry().Status("edge"); known {
		t.Error("hub knows a remote before it is registered")
	}
	edge.Register(func(c *hubv1.Cluster) { c.Spec.State = hubv1.ClusterPaused })
	edge.WaitNotReady(hubv1.ReasonPaused)
	edge.Change(func(c *hubv1.Cluster) { c.Spec.State = hubv1.ClusterActive })
	edge.WaitReady()
	heard := configMap("echo-edge")
	hub.WaitFor(heard, func() error { return equal(heard.Data["text"], "before anybody listened") })
	edge.Deregister()
	if _, known := hub.Registry().Status("edge"); known {
		t.Error("hub knows a remote after it is deregistered")
	}
	edge.Register()
	edge.WaitReady()
	hub.AddRemote("another").WaitReady()
	expectEcho(t, hub, hub.Remote("another"), "hello")
}

func TestClusters(t *testing.T) {
	t.Parallel()
	inEurope := func(c *hubv1.Cluster) { c.Labels = map[string]string{"region": "eu"} }
	hub := hubtest.New(t, hubtest.Clusters(inEurope), hubtest.Remotes("a"))
	b := hub.AddRemote("b", func(c *hubv1.Cluster) { c.Labels["stage"] = "test" })
	if err := errors.Join(equal(hub.Remote("a").Cluster().Labels["region"], "eu"),
		equal(b.Cluster().Labels["region"], "eu"), equal(b.Cluster().Labels["stage"], "test")); err != nil {
		t.Error(err)
	}
}

// The declared permissions of a module are sufficient for it; with fewer permissions it waits and reports them as
// missing.
func TestRules(t *testing.T) {
	t.Parallel()
	t.Run("all that the module declares", func(t *testing.T) {
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
	})
	t.Run("none of it", func(t *testing.T) {
		t.Parallel()
		hub := hubtest.New(t, hubtest.Modules(echo()), hubtest.Rules(rbac.RemoteRules[registry.Module]()...))
		edge := hub.AddRemote("edge")
		edge.WaitCondition(hubv1.ConditionReachable, metav1.ConditionTrue, "")
		edge.WaitCondition(hubv1.ConditionAuthorized, metav1.ConditionFalse, "")
		edge.WaitModule("echo", hubv1.ModuleWaiting)
	})
}

func TestHubOptions(t *testing.T) {
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
		Hub: fx.Invoke(addWidgets), Remote: fx.Invoke(polishAll),
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{widgetGroup}, Resources: []string{"widgets"}, Verbs: []string{"list", "watch", "patch"}}},
	})
}

func equal(got, want string) error {
	if got != want {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}
