// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// brittle is a cluster whose API server compacts its history every second, and serves watches from etcd.
const brittle = "brittle"

// storageRows are about the storage behind an API server. They run one after the other, on a cluster with its own etcd.
func storageRows() []row {
	return []row{
		{name: "history compacted while the network was down", run: compacted},
		{name: "etcd frozen", run: frozenEtcd},
		{name: "restored from a backup", run: restored},
	}
}

// startBrittle starts the cluster for these rows.
func (s *stage) startBrittle(t *testing.T) {
	t.Helper()
	s.etcd = startEtcd(t)
	c, err := s.etcd.fleet(t, fleet.Options{Audit: true}).Create(t.Context(), brittle,
		"--etcd-compaction-interval=1s", "--watch-cache=false")
	must(t, err)
	s.brittle = c
}

// compacted is a remote whose informers reconnect after the API server has compacted the events that they missed.
func compacted(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.brittle)
	admin := s.clientFor(t, r.on.Config())
	doomed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: "doomed"}}
	must(t, admin.Create(t.Context(), doomed))
	// The epoch does not end: the informers have to recover.
	r.register(func(c *hubv1.ClusterSpec) { c.Probe.FailureThreshold = 100 })
	r.expectReady(patience)
	epoch, before := r.epoch(), s.stopwatch.reconciles(r.name, doomed.Name)
	r.set(fault.Refuse())
	must(t, admin.Delete(t.Context(), doomed))
	for i := range 5 {
		r.newConfigMap(fmt.Sprintf("new-%d", i))
		r.waits(time.Second) // The API server compacts history that is older than a second.
	}
	r.set(fault.Pass())
	eventually(t, func() error {
		if s.stopwatch.reconciles(r.name, doomed.Name) == before || s.stopwatch.reconciles(r.name, "new-4") == 0 {
			return errors.New("some changes have not been reconciled")
		}
		return nil
	})
	t.Logf("all changes were reconciled after %s", short(time.Since(r.since)))
	r.staysReady(epoch, 0)
	lists, err := r.on.AuditEvents(fleet.ByAgent(r.agent()), fleet.Since(r.since), fleet.AuditEvent.Lists)
	must(t, err)
	if len(lists) == 0 {
		t.Error("no informer relisted, so the history was not compacted")
	}
}

// frozenEtcd is a running API server that cannot respond.
func frozenEtcd(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.brittle)
	r.register()
	r.expectReady(patience)
	s.etcd.signal(t, syscall.SIGSTOP)
	thaw := sync.OnceFunc(func() { s.etcd.signal(t, syscall.SIGCONT) })
	t.Cleanup(thaw)
	r.since = time.Now()
	r.awaits("NotHealthy or TimedOut", detectSilent, func(c *hubv1.Cluster) bool {
		return hasCondition(c, hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonNotHealthy) ||
			hasCondition(c, hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonTimedOut)
	})
	thaw()
	r.since = time.Now()
	r.expectReady(recovered)
	r.expectWorking()
}

// restored is a remote that returns to an earlier state: resource versions are assigned again.
func restored(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.brittle)
	r.register()
	r.newConfigMap("old")
	r.expectReady(patience)
	backup := s.etcd.backUp(t)
	r.newConfigMap("lost") // is not in the backup
	for range 50 {
		r.expectWorking()
	}
	must(t, r.on.Kill())
	r.since = time.Now()
	r.expect(hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonUnreachable, detectRefused)
	s.etcd.restore(t, backup)
	must(t, r.on.Restart(t.Context()))
	r.since = time.Now()
	r.expectReady(recovered)
	r.expectWorking()
	must(t, r.lease(func(ctx context.Context, c client.Client) error {
		var list corev1.ConfigMapList
		if err := c.List(ctx, &list, client.InNamespace(r.name)); err != nil {
			return err
		}
		for _, one := range list.Items {
			if one.Name == "lost" {
				return errors.New("the cache has an object that is not in the restored cluster")
			}
		}
		return nil
	}))
}
