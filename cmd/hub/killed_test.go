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
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

// A hub is killed at random moments, again and again, while a remote is registered and deregistered.
// Whenever it is left alone it brings everything to where it should be, without anybody's help, and
// nothing is there twice (F55, F59). It is left alone after every second kill: a third one in a row,
// while an app starts, would be blamed on the app, which is not what this test is about.
func TestRun_KilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	pairs := 2
	if allFaults() {
		pairs = 25
	}
	clusters := createAll(t, fleettest.New(t, fleet.Options{}), "hub", "edge")
	k := &killer{t: t, hub: clusters[0], edge: clusters[1], c: clientFor(t, clusters[0])}
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
		_ = k.c.Delete(t.Context(), clusterNamed("goes")) // which may not have come yet
		longest = max(longest, k.leaveAlone(i))
	}
	t.Logf("after each two of %d kills everything was Ready within %s", 2*pairs, longest.Round(time.Second/10))
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

// leaveAlone runs a hub until it has done all that it should, and returns how long it took until
// everything was Ready.
func (k *killer) leaveAlone(i int) time.Duration {
	k.t.Helper()
	// What only a hub that works can know.
	must(k.t, clientFor(k.t, k.edge).Create(k.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("new-", i)}}))
	begin, one := time.Now(), start(k.t, k.args...)
	expectNodes(k.t, k.hub, []string{"stays"}, int32(i+1))
	took := time.Since(begin)
	eventually(k.t, func() error {
		var all hubv1.ClusterList
		err := k.c.List(k.t.Context(), &all)
		if err == nil && (len(all.Items) != 1 || len(all.Items[0].Finalizers) != 1) {
			err = fmt.Errorf("these are there: %+v", all.Items)
		}
		return errors.Join(err, k.suspects())
	})
	one.signal(syscall.SIGTERM)
	one.expectExit(0)
	return took
}

// suspects fails while the hub suspects an app.
func (k *killer) suspects() error {
	var journal corev1.ConfigMap
	key := client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: cluster.JournalName}
	err := client.IgnoreNotFound(k.c.Get(k.t.Context(), key, &journal))
	if err == nil && len(journal.Data) > 0 {
		err = fmt.Errorf("the journal has %v", journal.Data)
	}
	return err
}

func clusterNamed(name string) client.Object {
	return &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
