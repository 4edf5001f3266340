// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

// A hub is killed at random moments while a remote is registered and deregistered. When it runs again, it reaches the
// desired state without help, and creates no object twice (F55, F59). It runs undisturbed after every second kill, so that it starts
// no app alone, which is not the subject of this test.
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
		k.deregister("goes")
		longest = max(longest, k.leaveAlone(i))
	}
	t.Logf("after each pair of %d kills the Cluster is Ready within %s", 2*pairs, longest.Round(time.Second/10))
}

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

// deregister deletes a Cluster, which may not exist yet, as "hub deregister" does: these are more than the limit of removals.
func (k *killer) deregister(name string) {
	k.t.Helper()
	var one hubv1.Cluster
	err := k.c.Get(k.t.Context(), client.ObjectKey{Name: name}, &one)
	if apierrors.IsNotFound(err) {
		return
	}
	must(k.t, err)
	before := one.DeepCopy()
	metav1.SetMetaDataAnnotation(&one.ObjectMeta, hubv1.AnnotationDeregister, string(one.UID))
	must(k.t, k.c.Patch(k.t.Context(), &one, client.MergeFrom(before)))
	must(k.t, k.c.Delete(k.t.Context(), &one))
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
		return errors.Join(err, noStarts(k.t, k.c))
	})
	one.signal(syscall.SIGTERM)
	one.expectExit(0)
	return took
}

func journal(t *testing.T, c client.Client) (entries []string, err error) {
	t.Helper()
	var all corev1.ConfigMap
	err = c.Get(t.Context(), client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: cluster.JournalName}, &all)
	return slices.Collect(maps.Values(all.Data)), client.IgnoreNotFound(err)
}

// noStarts returns an error while an app is being started, or processes have ended while it was.
func noStarts(t *testing.T, c client.Client) error {
	t.Helper()
	entries, err := journal(t, c)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("the journal has %q, want it empty", entries)
	}
	return err
}

// areStarting returns an error unless n apps are being started after a number of ends of processes.
func areStarting(t *testing.T, c client.Client, n, ends int) error {
	t.Helper()
	entries, err := journal(t, c)
	starts := 0
	for _, text := range entries {
		var e struct {
			Starting int64
			Ends     []int64
		}
		err = errors.Join(err, json.Unmarshal([]byte(text), &e))
		if e.Starting != 0 && len(slices.DeleteFunc(e.Ends, func(end int64) bool { return end == 0 })) == ends {
			starts++
		}
	}
	if err == nil && starts != n {
		err = fmt.Errorf("%d apps are being started after %d ends, want %d: %q", starts, ends, n, entries)
	}
	return err
}

func clusterNamed(name string) client.Object {
	return &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
