// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// One hub and its remote edge serve for all that a test can do with them, one after the other.
func TestHub(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(echo()))
	for _, step := range []struct {
		name string
		run  func(*testing.T, *hubtest.Hub, *hubtest.Remote)
	}{
		{"WaitFor", waitFor},
		{"WaitCached", waitCached},
		{"Slow", slow},
		{"RotateToken", rotateToken},
		{"Kubeconfig", kubeconfig},
		{"Refuse", refuse},
		{"faults of the hub", faultsOfTheHub},
		{"WaitModuleGone", waitModuleGone},
		{"Stop and Start", stopAndStart},
		{"Restart", restart},
		{"Register and Deregister", registerAndDeregister},
		{"waits that fail", waitsThatFail},
		{"RevokeToken", revokeToken},
		{"ExpireCertificate", expireCertificate},
		{"mistakes", mistakes},
	} {
		t.Run(step.name, func(t *testing.T) {
			hub := hub.With(t)
			step.run(t, hub, hub.Remote("edge"))
		})
	}
}

// A wait overwrites its object: data that the API server does not have is removed.
func waitFor(t *testing.T, hub *hubtest.Hub, _ *hubtest.Remote) {
	t.Helper()
	cm := shout("here")
	hub.Create(cm)
	cm.Data["another"] = "only here"
	looks := 0
	hub.WaitFor(cm, func() error {
		looks++
		if looks < 3 {
			return errors.New("look again")
		}
		return errors.Join(equal(cm.Data["text"], "here"), equal(cm.Data["another"], ""))
	})
	cm.Finalizers = []string{"example.com/held"}
	testkit.Must(t, hub.Client().Update(t.Context(), cm))
	hub.Delete(cm)
	hub.WaitFor(cm, func() error {
		if cm.DeletionTimestamp == nil {
			return errors.New("it is not being deleted")
		}
		return nil
	})
	cm.Finalizers = nil
	testkit.Must(t, hub.Client().Update(t.Context(), cm))
	hub.WaitGone(cm)
	hub.Delete(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "never-was"}})
}

// After WaitCached, each read from the cache returns the written version.
func waitCached(t *testing.T, hub *hubtest.Hub, edge *hubtest.Remote) {
	t.Helper()
	inCache := func(c *corev1.ConfigMap) error {
		return hub.Registry().WithCluster(t.Context(), "edge", func(ctx context.Context, remote cluster.Cluster) error {
			return remote.GetCache().Get(ctx, client.ObjectKeyFromObject(c), c)
		})
	}
	for range 5 {
		written := shout("first")
		edge.Create(written)
		edge.WaitCached(written)
		written.Data["text"] = "second"
		testkit.Must(t, edge.Client().Update(t.Context(), written))
		edge.WaitCached(written)
		read := configMap("shout")
		testkit.Must(t, errors.Join(inCache(read), equal(read.Data["text"], "second")))
		edge.Delete(written)

		onHub := configMap("cached")
		hub.Create(onHub)
		hub.WaitCached(onHub)
		testkit.Must(t, hub.Cache().Get(t.Context(), client.ObjectKeyFromObject(onHub), configMap("x")))
		hub.Delete(onHub)
	}
}

func slow(t *testing.T, hub *hubtest.Hub, edge *hubtest.Remote) {
	t.Helper()
	const late = 300 * time.Millisecond
	before := epoch(t, hub, edge)
	edge.Slow(late)
	began := time.Now()
	if err := ask(t.Context(), hub, edge); err != nil || time.Since(began) < 2*late {
		t.Errorf("request to a slow remote took %s: %v", time.Since(began), err)
	}
	expectEcho(t, hub, edge, "slow")
	edge.Repair()
	hub.Eventually(func() error { return within(late, func() error { return ask(t.Context(), hub, edge) }) })
	testkit.Equal(t, epoch(t, hub, edge), before, "app of a slow remote was replaced: epoch")
}

func rotateToken(t *testing.T, hub *hubtest.Hub, edge *hubtest.Remote) {
	t.Helper()
	before, first := epoch(t, hub, edge), secretOf(t, hub, edge)
	for _, text := range []string{"one", "two"} {
		edge.RotateToken()
		testkit.NoError(t, ask(t.Context(), hub, edge), "request with the new token fails")
		expectEcho(t, hub, edge, text)
	}
	testkit.Equal(t, epoch(t, hub, edge), before, "app was replaced: epoch")
	if string(secretOf(t, hub, edge).Data["kubeconfig"]) == string(first.Data["kubeconfig"]) {
		t.Error("Secret is unchanged after two rotations")
	}
}

// A kubeconfig of a remote passes through the remote's faults and differs from the kubeconfig of the hub.
func kubeconfig(t *testing.T, hub *hubtest.Hub, edge *hubtest.Remote) {
	t.Helper()
	own := edge.Kubeconfig()
	if string(own) == string(secretOf(t, hub, edge).Data["kubeconfig"]) {
		t.Error("kubeconfig is the hub's kubeconfig")
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(own)
	testkit.Must(t, err)
	c := fleettest.ClientFor(t, config)
	read := func() error {
		return c.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace("default"))
	}
	testkit.NoError(t, read())
	edge.Refuse()
	testkit.Fails(t, read(), "request with the kubeconfig bypasses the faults")
	edge.Repair()
	edge.RotateToken() // this revokes the hub's token
	testkit.NoError(t, read())
	edge.WaitReady()
}

// A remote has each fault until it is repaired, and keeps its data.
func TestRemote_Faults(t *testing.T) {
	fleettest.Slow(t, "nothing: TestHub shows Refuse, RevokeToken and ExpireCertificate; Blackhole, Break and Kill take many seconds")
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(echo()))
	edge := hub.Remote("edge")
	edge.Create(configMap("kept"))
	for _, tc := range []struct {
		name   string
		begin  func(*hubtest.Remote)
		reason string
		end    func(*hubtest.Remote)
	}{
		{"Blackhole", (*hubtest.Remote).Blackhole, hubv1.ReasonTimedOut, (*hubtest.Remote).Repair},
		{"Refuse", (*hubtest.Remote).Refuse, hubv1.ReasonUnreachable, (*hubtest.Remote).Repair},
		{"Break", func(r *hubtest.Remote) { r.Break(fault.Hold()) }, hubv1.ReasonTimedOut, (*hubtest.Remote).Repair},
		{"Kill", (*hubtest.Remote).Kill, hubv1.ReasonUnreachable, (*hubtest.Remote).Restart},
		{"RevokeToken", (*hubtest.Remote).RevokeToken, hubv1.ReasonUnauthorized, (*hubtest.Remote).RotateToken},
		{"ExpireCertificate", (*hubtest.Remote).ExpireCertificate, hubv1.ReasonExpired, (*hubtest.Remote).RotateToken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hub := hub.With(t)
			edge := hub.Remote("edge")
			tc.begin(edge)
			edge.WaitNotReady(tc.reason)
			testkit.Fails(t, ask(t.Context(), hub, edge), "request to the remote succeeds during the fault")
			tc.end(edge)
			edge.WaitReady()
			expectEcho(t, hub, edge, "after")
		})
	}
	testkit.NoError(t, edge.Client().Get(t.Context(), client.ObjectKeyFromObject(configMap("kept")), configMap("kept")))
}

// A remote has a fault until it is repaired.
func refuse(t *testing.T, hub *hubtest.Hub, edge *hubtest.Remote) {
	t.Helper()
	edge.Refuse()
	edge.WaitNotReady(hubv1.ReasonUnreachable)
	testkit.Fails(t, ask(t.Context(), hub, edge), "request to the remote succeeds during the fault")
	edge.Repair()
	edge.WaitReady()
	expectEcho(t, hub, edge, "after")
}

func expireCertificate(t *testing.T, hub *hubtest.Hub, edge *hubtest.Remote) {
	t.Helper()
	edge.ExpireCertificate()
	edge.WaitNotReady(hubv1.ReasonExpired)
	edge.RotateToken()
	edge.WaitReady()
	expectEcho(t, hub, edge, "after the certificate has expired")
}

func revokeToken(t *testing.T, hub *hubtest.Hub, edge *hubtest.Remote) {
	t.Helper()
	edge.RevokeToken()
	edge.WaitNotReady(hubv1.ReasonUnauthorized)
	edge.RotateToken()
	edge.WaitReady()
	expectEcho(t, hub, edge, "after the token was revoked")
}

// A fault can also affect the hub's own API server.
func faultsOfTheHub(t *testing.T, hub *hubtest.Hub, edge *hubtest.Remote) {
	t.Helper()
	edge.Delete(configMap("shout"))
	hub.Refuse()
	edge.Create(shout("unheard"))
	err := hub.Registry().WithClient(t.Context(), "edge", func(ctx context.Context, c client.Client) error {
		return c.Get(ctx, client.ObjectKeyFromObject(configMap("shout")), configMap("shout"))
	})
	if client.IgnoreNotFound(err) != nil {
		t.Errorf("request to the remote fails while the hub's API server is unreachable: %v", err)
	}
	heard := configMap("echo-edge")
	if err := hub.Client().Get(t.Context(), client.ObjectKeyFromObject(heard), heard); err != nil || heard.Data["text"] == "unheard" {
		t.Errorf("the module has written to the unreachable hub: %v, %v", heard.Data, err)
	}
	hub.Repair()
	hub.WaitFor(heard, func() error { return equal(heard.Data["text"], "unheard") })
}

func waitModuleGone(t *testing.T, hub *hubtest.Hub, edge *hubtest.Remote) {
	t.Helper()
	edge.WaitModule("echo", hubv1.ModuleRunning)
	edge.Change(func(c *hubv1.Cluster) { c.Spec.Modules = []string{"another"} })
	edge.WaitModuleGone("echo")

	edge.Change(func(c *hubv1.Cluster) { c.Spec.Modules = []string{"echo"} })
	edge.WaitModule("echo", hubv1.ModuleRunning)
	expectSaid(t, fails(t, func(tb *failing) {
		hub := hub.With(tb)
		hub.SetPatience(short)
		hub.Remote("edge").WaitModuleGone("echo")
	}), []string{"module echo to be gone", "it is Running, in the status of edge"})
}

func stopAndStart(t *testing.T, hub *hubtest.Hub, edge *hubtest.Remote) {
	t.Helper()
	hub.Stop()
	edge.Delete(configMap("shout"))
	edge.Create(shout("while nobody listened"))
	edge.Change(func(c *hubv1.Cluster) { c.Labels = map[string]string{"region": "eu"} })
	hub.Start()
	edge.WaitReady()
	heard := configMap("echo-edge")
	hub.WaitFor(heard, func() error { return equal(heard.Data["text"], "while nobody listened") })
	info, _ := hub.Registry().Status("edge")
	testkit.NoError(t, equal(info.Labels["region"], "eu"))
}

func restart(t *testing.T, hub *hubtest.Hub, edge *hubtest.Remote) {
	t.Helper()
	before := hub.Registry()
	hub.Restart()
	edge.WaitReady()
	testkit.NoError(t, ask(t.Context(), hub, edge), "WaitReady returns before the new hub is ready")
	expectEcho(t, hub, edge, "after")
	if hub.Registry() == before {
		t.Error("registry is the registry of the previous hub")
	}
	testkit.ErrorIs(t, before.Ensure("edge", state.Desired{}), registry.ErrClosed, "Ensure of the previous registry")
}

// A remote exists before the hub knows it, and after.
func registerAndDeregister(t *testing.T, hub *hubtest.Hub, _ *hubtest.Remote) {
	t.Helper()
	late := hub.NewRemote("late")
	late.Create(shout("before anybody listened"))
	if _, known := hub.Registry().Status("late"); known {
		t.Error("hub knows a remote before it is registered")
	}
	late.Register(func(c *hubv1.Cluster) { c.Spec.State = hubv1.ClusterPaused })
	late.WaitNotReady(hubv1.ReasonPaused)
	late.Change(func(c *hubv1.Cluster) { c.Spec.State = hubv1.ClusterActive })
	late.WaitReady()
	heard := configMap("echo-late")
	hub.WaitFor(heard, func() error { return equal(heard.Data["text"], "before anybody listened") })
	late.Deregister()
	if _, known := hub.Registry().Status("late"); known {
		t.Error("hub knows a remote after it is deregistered")
	}
	late.Register()
	late.WaitReady()
}

// A mistake in a test fails it.
func mistakes(t *testing.T, hub *hubtest.Hub, _ *hubtest.Remote) {
	t.Helper()
	for _, tc := range []struct {
		want string
		do   func(*hubtest.Hub)
	}{
		{"the hub runs already", (*hubtest.Hub).Start},
		{"there is no remote nowhere", func(hub *hubtest.Hub) { hub.Remote("nowhere") }},
		{"start it with Hub.Start", func(hub *hubtest.Hub) {
			hub.Stop()
			hub.Registry()
		}},
	} {
		expectSaid(t, fails(t, func(tb *failing) { tc.do(hub.With(tb)) }), []string{tc.want})
	}
}

func secretOf(t testing.TB, hub *hubtest.Hub, remote *hubtest.Remote) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: remote.Name()}}
	testkit.Must(t, hub.Client().Get(t.Context(), client.ObjectKeyFromObject(s), s))
	return s
}
