// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

// A hub is killed at random moments while a remote is registered and deregistered. When it runs again, it reaches the
// desired state without help, and creates no object twice (F55, F59). It runs undisturbed after every second kill: a
// third kill in a row, while an app starts, would count against the app, which is not the subject of this test.
func TestRun_KilledAtRandomMoments(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub TestRun_LogAndTracesSayWhatTheyAreAbout")
	t.Parallel()
	const pairs = 25
	k := &killer{t: t, hub: fleettest.Borrow(t, pool.Hub), edge: fleettest.Borrow(t, pool.Remote)}
	k.c = clientFor(t, k.hub)
	k.args = []string{
		"run", "--kubeconfig=" + install(t, k.hub), "--allow-cidr=127.0.0.0/8", "--allow-duplicate-clusters",
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("the seed is %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	must(t, k.c.Create(t.Context(), registration("stays", k.edge)))
	var longest time.Duration
	for i := range pairs {
		k.killAfter(time.Duration(random.Int64N(int64(1500 * time.Millisecond))))
		must(t, k.c.Create(t.Context(), registration("goes", k.edge)))
		k.killAfter(time.Duration(random.Int64N(int64(1500 * time.Millisecond))))
		must(t, k.c.Delete(t.Context(), registration("goes", k.edge)))
		_ = k.c.Delete(t.Context(), clusterNamed("goes")) // which may not exist yet
		longest = max(longest, k.leaveAlone(i))
	}
	t.Logf("after each pair of %d kills the Cluster is Ready within %s", 2*pairs, longest.Round(time.Second/10))
}

// killer kills hubs.
type killer struct {
	t         *testing.T
	hub, edge *fleet.Cluster
	c         client.Client
	args      []string
}

func (k *killer) killAfter(d time.Duration) {
	k.t.Helper()
	one := start(k.t, k.args...)
	pause(d)
	one.signal(syscall.SIGKILL)
	_ = one.exit()
}

// leaveAlone runs a hub until it has reached the desired state, and returns the time until the Cluster is Ready.
func (k *killer) leaveAlone(i int) time.Duration {
	k.t.Helper()
	// Only a working hub can count this Node.
	must(k.t, clientFor(k.t, k.edge).Create(k.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("new-", i)}}))
	begin, one := time.Now(), start(k.t, k.args...)
	expectNodes(k.t, k.hub, []string{"stays"}, int32(i+1))
	took := time.Since(begin)
	eventually(k.t, func() error {
		var all hubv1.ClusterList
		err := k.c.List(k.t.Context(), &all)
		if err == nil && (len(all.Items) != 1 || len(all.Items[0].Finalizers) != 1) {
			err = fmt.Errorf("the Clusters are %+v, want one with one finalizer", all.Items)
		}
		return errors.Join(err, k.suspects())
	})
	one.signal(syscall.SIGTERM)
	one.expectExit(0)
	return took
}

// suspects returns an error while the hub suspects an app.
func (k *killer) suspects() error {
	for _, name := range cluster.JournalNames() {
		var journal corev1.ConfigMap
		key := client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: name}
		err := client.IgnoreNotFound(k.c.Get(k.t.Context(), key, &journal))
		if err == nil && len(journal.Data) > 0 {
			err = fmt.Errorf("the journal %s has %v, want it empty", name, journal.Data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func clusterNamed(name string) client.Object {
	return &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
