// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// reencode returns an equivalent kubeconfig in other bytes.
func reencode(t *testing.T, data []byte) []byte {
	t.Helper()
	c, err := clientcmd.Load(data)
	must(t, err)
	c.Contexts["other"] = &clientcmdapi.Context{Cluster: slices.Collect(maps.Keys(c.Clusters))[0]}
	out, err := clientcmd.Write(*c)
	must(t, err)
	return out
}

// Defect 7 of the libraries. The cluster-inventory library appends the arguments of one cluster's credential plugin to
// a list that all clusters share: the plugin of the next cluster runs with both, and each call makes the list longer.
// Here no plugin runs, and no connection contains data of another Secret, though all are parsed from the same buffer.
func TestClusterInventory_ArgumentsOfOneClusterLeakIntoTheNext(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	type user struct {
		cluster, name string
		data          []byte
		config        state.Desired
		fingerprint   string
	}
	users := map[registry.ClusterName]*user{}
	shared := make([]byte, 0, 64<<10) // one buffer for all, because they come from one cache
	for i := range 6 {
		u := &user{cluster: []string{one, two}[i%2], name: unique("leak")}
		minted, err := clusterOf(t, u.cluster).MintToken(t.Context(), fleet.User{Name: u.name, Rules: everything})
		must(t, err)
		u.data = minted.Kubeconfig()
		shared = append(shared[:0], u.data...)
		u.config = configFor(t, shared)
		u.fingerprint = u.config.Credential.Fingerprint(nil) + u.config.Endpoint.Fingerprint()
		users[registry.ClusterName(u.name)] = u
	}
	var spawning sync.WaitGroup
	for name, u := range users {
		spawning.Go(func() { spawn(t, r, name, u.config) })
	}
	spawning.Wait()
	for name, u := range users {
		again := configFor(t, u.data)
		if got := again.Credential.Fingerprint(nil) + again.Endpoint.Fingerprint(); got != u.fingerprint {
			t.Errorf("the connection of %s changes when its kubeconfig is read again", name)
		}
		if got, want := whoAmI(t, r, name), "system:serviceaccount:kube-system:"+u.name; got != want {
			t.Errorf("%s acts as %s, want %s", name, got, want)
		}
	}
	// A plugin with the arguments of one cluster runs neither for that cluster nor for another cluster.
	for _, cluster := range []string{"a", "b", "a"} {
		_, err := kubeconfig.Parse(map[string][]byte{"kubeconfig": withExec(t, cluster)}, kubeconfig.Options{}, policy)
		var refused *kubeconfig.Error
		if !errors.As(err, &refused) || refused.Reason != kubeconfig.ReasonExecNotAllowed || strings.Contains(err.Error(), "--cluster") {
			t.Errorf("a plugin for %s: got %v, want ExecNotAllowed without the arguments", cluster, err)
		}
	}
}

// withExec returns a kubeconfig with a credential plugin for a cluster.
func withExec(t *testing.T, cluster string) []byte {
	t.Helper()
	c, err := clientcmd.Load(clusterOf(t, one).Kubeconfig())
	must(t, err)
	for _, u := range c.AuthInfos {
		*u = clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1", Command: "/bin/false",
			Args: []string{"--cluster=" + cluster}, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}}
	}
	data, err := clientcmd.Write(*c)
	must(t, err)
	return data
}

// whoAmI returns the user name that a remote has for the hub.
func whoAmI(t *testing.T, r *registry.Registry, name registry.ClusterName) string {
	t.Helper()
	var review authenticationv1.SelfSubjectReview
	must(t, r.WithClient(t.Context(), name, func(ctx context.Context, remote client.Client) error {
		return remote.Create(ctx, &review)
	}))
	return review.Status.UserInfo.Username
}

// Defect 8 of the libraries. Cluster API's cache sends to its subscribers over channels that they must read, and holds
// the lock of all subscribers meanwhile: a slow subscriber blocks all others.
func TestClusterAPI_SlowSubscriberKeepsEverybodyWaiting(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	blocked := newBlocker(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	subscribe := func(f func(registry.Event)) {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
		t.Cleanup(queue.ShutDown)
		must(t, registry.Source(r, func(e registry.Event) []string {
			f(e)
			return nil
		}).Start(ctx, queue))
	}
	subscribe(func(registry.Event) { blocked.block() })
	ready := make(chan registry.ClusterName, 64)
	subscribe(func(e registry.Event) {
		if e.Kind == registry.EventReady {
			ready <- e.Name
		}
	})
	for range 5 {
		name := registry.ClusterName(unique("announced"))
		quickly(t, "Spawn beside a slow subscriber", func() error { return r.Spawn(t.Context(), name, admin(t, one)) })
		blocked.await(t)
		quickly(t, "the event for another subscriber", func() error {
			for got := range ready {
				if got == name {
					break
				}
			}
			return nil
		})
		quickly(t, "Stop beside a slow subscriber", func() error { return r.Stop(t.Context(), name) })
	}
}

// Defect 9 of the libraries. Gardener's provider renews short-lived credentials by replacing the cluster: with each
// renewal every informer lists everything.
func TestGardener_RenewalListsEverythingAnew(t *testing.T) {
	t.Parallel()
	h := sharedHub(t)
	name := unique("renewed")
	remote := registry.ClusterName(name)
	mint := func() []byte {
		minted, err := clusterOf(t, one).MintToken(t.Context(), fleet.User{Name: name, Rules: everything})
		must(t, err)
		return minted.Kubeconfig()
	}
	h.register(name, mint(), nil)
	first := h.expectReady(name).Status.Credentials.Fingerprint
	aside := newBystander(t, h.registry, one, remote)
	expectWorks(t, one, remote)
	before := lists(t, clusterOf(t, one), remote)
	for range times(2, 5) {
		h.putSecret(name, map[string][]byte{"kubeconfig": mint()})
		eventually(t, func() error {
			now := h.get(name).Status.Credentials.Fingerprint
			if now == first {
				return errors.New("the old credential is in use")
			}
			first = now
			return nil
		})
		expectWorks(t, one, remote)
	}
	aside.expectUnaware()
	if after := lists(t, clusterOf(t, one), remote); after != before {
		t.Errorf("got %d more lists, want 0", after-before)
	}
}

// Defect 10 of the libraries. Karmada puts the work for a cluster that is not ready back into the queue that all
// clusters share, again and again, with an error each time. Here a lease of an unreachable remote fails immediately, and
// causes no connection to the remote.
func TestKarmada_WorkForUnreadyClustersGoesRoundInTheQueueOfAll(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	p, data := proxyTo(t, one)
	set(t, p, fault.Reset()) // The proxy accepts connections, and counts them.
	gone := registry.ClusterName(unique("gone"))
	must(t, r.Ensure(gone, configFor(t, data)))
	aside := spawnBystander(t, r, two)
	expectState(t, r, gone, state.StateUnreachable, "Unreachable")
	first, before := time.Now(), p.Stats().Accepted
	var slowest time.Duration
	for range 10_000 {
		began := time.Now()
		err := r.WithClient(t.Context(), gone, func(context.Context, client.Client) error {
			t.Error("got a client for an unreachable remote, want none")
			return nil
		})
		slowest = max(slowest, time.Since(began))
		if !errors.Is(err, registry.ErrNotReady) {
			t.Fatalf("WithClient returns %v, want ErrNotReady", err)
		}
	}
	t.Logf("10 000 leases of an unreachable remote: the slowest took %s", slowest)
	if slowest > time.Second {
		t.Errorf("the slowest lease took %s, want a second at most", slowest)
	}
	connections, probes := p.Stats().Accepted-before, int64(time.Since(first)/time.Second)+1
	if connections > probes {
		t.Errorf("got %d connections, want those of the probes: %d at most, one each second", connections, probes)
	}
	if before == 0 {
		t.Error("the proxy counted no connection of a probe")
	}
	aside.expectUnaware()
}
