// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
)

const (
	// mirrors and copiesEach are how many remotes have how many copies each.
	mirrors, copiesEach = 10, 50
	// atMost is the promise: how many copies a module may lose in all remotes together.
	atMost = 100
	// shownWithin is how soon a hold is shown.
	shownWithin = 5 * time.Second
)

// loss is a stage with remotes that have copies of the objects of the hub, and a hub whose data can be lost.
type loss struct {
	*stage
	mirror  mirror
	ahead   atomic.Int64 // of the clock of the holds
	remotes []*remote
	stop    func()    // stops the hub
	began   time.Time // the fault
	back    time.Time // the API server of the hub is ready again
}

func newLoss(t *testing.T) *loss {
	t.Helper()
	l := &loss{}
	l.stage = newStage(t, stageOptions{
		hubEtcd: true, fleet: fleet.Options{Audit: true},
		modules: func(*stopwatch) []registry.Module { return []registry.Module{l.mirror.module()} },
		hub:     l.clock,
	}, calm)
	l.stop = l.startHub()
	l.remotes = l.newCrowd(t, crowd{n: mirrors, name: mirrorName, on: []string{calm}, changes: []change{quick, runs(mirrorName)}})
	expectAllReady(t, l.remotes)
	return l
}

// clock gives the hub the clock of the test.
func (l *loss) clock(o *app.Options) {
	o.Registry.Now = func() time.Time { return time.Now().Add(time.Duration(l.ahead.Load())) }
}

// pass moves the clock by more than the time for which deletes, creates and held deletes count.
func (l *loss) pass() { l.ahead.Add(int64(11 * time.Minute)) }

// addSources creates the sources in the hub.
func (l *loss) addSources() {
	l.t.Helper()
	must(l.t, client.IgnoreAlreadyExists(l.admin.Create(l.t.Context(), namespace(sources))))
	for i := range copiesEach {
		must(l.t, l.admin.Create(l.t.Context(), mirrored(sources, fmt.Sprintf("o-%03d", i))))
	}
}

// copies returns how many copies the remotes have together.
func (l *loss) copies() int {
	l.t.Helper()
	var all corev1.ConfigMapList
	must(l.t, l.clientFor(l.t, l.cluster(calm).Config()).List(l.t.Context(), &all, client.HasLabels{mirrorLabel}))
	return len(all.Items)
}

// expectCopies waits until every remote has every copy.
func (l *loss) expectCopies() {
	l.t.Helper()
	eventually(l.t, func() error {
		if n := l.copies(); n != mirrors*copiesEach {
			return fmt.Errorf("there are %d copies, want %d", n, mirrors*copiesEach)
		}
		return nil
	})
}

// losesHub replaces the data of the hub's API server.
func (l *loss) losesHub(backup string) {
	l.t.Helper()
	l.began = time.Now()
	must(l.t, l.hub.Kill())
	l.etcd.restore(l.t, backup)
	must(l.t, l.hub.Restart(l.t.Context()))
	l.back = time.Now()
}

// expectHeld waits for the hold of all remotes.
func (l *loss) expectHeld() {
	l.t.Helper()
	eventually(l.t, func() error {
		for _, h := range l.stage.remotes().HeldDeletes() {
			if h.Fleet {
				return nil
			}
		}
		return fmt.Errorf("the holds are %+v", l.stage.remotes().HeldDeletes())
	})
}

// shown returns the names of the Clusters that show a hold.
func (l *loss) shown() (names []string, err error) {
	var all hubv1.ClusterList
	if err := l.admin.List(l.t.Context(), &all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if hasCondition(&all.Items[i], hubv1.ConditionDeletesHeld, metav1.ConditionTrue, hubv1.ReasonLimitExceeded) {
			names = append(names, all.Items[i].Name)
		}
	}
	return names, nil
}

// expectShown waits until a Cluster shows a hold, and fails the test if that takes too long.
func (l *loss) expectShown(since time.Time) {
	l.t.Helper()
	l.expectSoon("shown", since, func() error {
		names, err := l.shown()
		if err == nil && len(names) == 0 {
			err = errors.New("no Cluster shows a hold")
		}
		return err
	})
}

// expectStored is expectShown for the ConfigMap.
func (l *loss) expectStored(since time.Time) {
	l.t.Helper()
	l.expectSoon("stored", since, func() error {
		if len(l.stored()) == 0 {
			return errors.New("no hold is stored")
		}
		return nil
	})
}

func (l *loss) expectSoon(what string, since time.Time, check func() error) {
	l.t.Helper()
	eventually(l.t, check)
	took := time.Since(since)
	l.t.Logf("the hold is %s after %s", what, took.Round(time.Millisecond))
	if took > shownWithin {
		l.t.Errorf("the hold is %s after %s, want at most %s", what, took, shownWithin)
	}
}

// stored returns the ids of the holds in the ConfigMap.
func (l *loss) stored() (ids []string) {
	l.t.Helper()
	var all corev1.ConfigMap
	key := client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: cluster.HoldsName}
	must(l.t, client.IgnoreNotFound(l.admin.Get(l.t.Context(), key, &all)))
	entries, err := holds.Read(&all)
	must(l.t, err)
	return slices.Collect(maps.Keys(holds.ByID(entries)))
}

// expectDeleted fails the test if the remotes were asked for more deletes than promised since the fault.
func (l *loss) expectDeleted() {
	l.t.Helper()
	events, err := l.cluster(calm).AuditEvents(fleet.ByAgent("clusterfx/"+replica), fleet.Since(l.began), func(e fleet.AuditEvent) bool {
		return (e.Verb == "delete" || e.Verb == "deletecollection") && e.Object.Resource == "configmaps"
	})
	must(l.t, err)
	many := 0
	for _, e := range events {
		if e.Verb == "deletecollection" {
			l.t.Errorf("a collection was deleted: %s", e)
		}
		if e.Response.Code == 200 && !strings.Contains(e.RequestURI, "dryRun=All") {
			many++
		}
	}
	left := l.copies()
	l.t.Logf("%d deletes in the audit log; %d of %d copies are left", many, left, mirrors*copiesEach)
	if many > atMost || left < mirrors*copiesEach-atMost {
		l.t.Errorf("%d copies were deleted, and %d are left: want at most %d deletes", many, left, atMost)
	}
	if n := l.mirror.cleaned.Load(); n > 0 {
		l.t.Errorf("%d cleanup steps ran, although no Cluster was deleted", n)
	}
}

// expectOver waits until every copy is back and no hold is left, which takes only time.
func (l *loss) expectOver() {
	l.t.Helper()
	l.expectCopies()
	eventually(l.t, func() error {
		l.pass()
		names, err := l.shown()
		if held := l.stage.remotes().HeldDeletes(); err == nil && len(held)+len(l.stored())+len(names) > 0 {
			err = fmt.Errorf("there are holds: %+v, stored %v, shown by %v", held, l.stored(), names)
		}
		return err
	})
}

// The API server of the hub loses its data. The remotes keep their objects: 100 of them at most are deleted in all.
func TestDeletes_HubLosesItsData(t *testing.T) {
	fleettest.Slow(t, "./registry TestHubObjects_EmptiedHub")
	t.Parallel()
	l := newLoss(t)
	old := l.etcd.backUp(t)
	l.addSources()
	l.expectCopies()
	l.pass() // The creates no longer pay for deletes.
	current := l.etcd.backUp(t)

	l.losesHub(old) // A backup from before the sources.
	l.expectHeld()
	l.expectStored(l.back)
	l.expectDeleted()
	// The hub has Clusters with newer resourceVersions in its cache than the API server has, and cannot write their statuses
	// before it is restarted, as Kubernetes recommends after a restore. The hold stays.
	l.stop()
	l.stop = l.startHub()
	l.expectHeld()
	l.expectShown(time.Now())
	l.expectDeleted()
	l.losesHub(current)
	l.expectOver()

	last := l.resourceVersion()
	l.losesHub(t.TempDir()) // A new etcd: no Clusters, Secrets and kinds.
	l.expectHeld()
	l.expectDeleted()
	l.installAgain(last)
	expectAllReady(t, l.remotes)
	l.expectShown(time.Now())
	l.expectStored(time.Now())
	l.expectDeleted()
	l.addSources()
	l.expectOver()
	l.expectDeleted()
}

// resourceVersion returns the resourceVersion of the hub's API server.
func (l *loss) resourceVersion() int {
	l.t.Helper()
	var all corev1.NamespaceList
	must(l.t, l.admin.List(l.t.Context(), &all))
	version, err := strconv.Atoi(all.ResourceVersion)
	must(l.t, err)
	return version
}

// installAgain installs the kinds of the hub and registers the remotes again, with other UIDs. An informer watches from the
// last resourceVersion that it has seen, and sees nothing until the API server has reached it; so it reaches it first.
func (l *loss) installAgain(last int) {
	l.t.Helper()
	ctx := l.t.Context()
	fleettest.InstallCRDs(l.t, l.hub.Config())
	must(l.t, errors.Join(l.admin.Create(ctx, namespace(hubv1.DefaultNamespace)), l.admin.Create(ctx, namespace("filler"))))
	for i := 0; l.resourceVersion() <= last; i++ {
		must(l.t, l.admin.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "filler", Name: fmt.Sprint(i)}}))
	}
	for _, r := range l.remotes {
		must(l.t, r.tryRegister(r.on.Kubeconfig(), quick, runs(mirrorName)))
	}
}
