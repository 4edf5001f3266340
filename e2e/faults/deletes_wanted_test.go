// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
	"github.com/clusterfx/clusterfx/registry"
)

// manyObjects is how many objects are replaced or deleted on purpose.
const manyObjects = 1000

// unhurried lets an app send as many requests as it wants.
func unhurried(s *hubv1.ClusterSpec) { s.Client = hubv1.ClientSpec{QPS: 1000, Burst: 1000} }

const (
	// keepers is a pipeline and its module: every labelled ConfigMap has a Secret in another namespace.
	keepers = "keepers"
	// keeperLabel marks these ConfigMaps.
	keeperLabel = "example.com/keeper"
	// vault has their Secrets.
	vault = "vault"
)

func keeperModule() registry.Module {
	return registry.NewModule(keepers, registry.ModuleOptions{Remote: fx.Options(
		pipeline.Module(pipeline.Options[*corev1.ConfigMap]{Name: keepers}),
		pipeline.AsSet[*corev1.ConfigMap](keepers, func(p registry.Remote) pipeline.Set[*corev1.ConfigMap] {
			return pipeline.Set[*corev1.ConfigMap]{
				Name:      "labelled",
				Handles:   func(one *corev1.ConfigMap) bool { return one.Labels[keeperLabel] != "" },
				Resources: []pipeline.Resource[*corev1.ConfigMap]{kept{p.Client}},
			}
		}),
	)})
}

// kept is the Secret of a ConfigMap.
type kept struct{ client client.Client }

func (kept) Name() string { return "secret" }

func (k kept) EnsureCreated(ctx context.Context, of *corev1.ConfigMap) error {
	return client.IgnoreAlreadyExists(k.client.Create(ctx, secretOf(of)))
}

func (k kept) EnsureDeleted(ctx context.Context, of *corev1.ConfigMap) error {
	return client.IgnoreNotFound(k.client.Delete(ctx, secretOf(of)))
}

func secretOf(of *corev1.ConfigMap) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: of.Name}}
}

// Deletes that are wanted are not held, however many they are: a module replaces its objects and creates the new ones first,
// and a person deletes a namespace with objects of a pipeline.
func TestDeletes_Wanted(t *testing.T) {
	fleettest.Slow(t, "./registry TestDeletes_NotCounted")
	t.Parallel()
	apps := make(chan registry.Remote, 1)
	l := &loss{}
	l.stage = newStage(t, stageOptions{
		fleet: fleet.Options{ControllerManager: true},
		modules: func(*stopwatch) []registry.Module {
			return []registry.Module{keeperModule(), registry.NewModule("worker", registry.ModuleOptions{
				Remote: fx.Invoke(func(p registry.Remote) { apps <- p }),
			})}
		},
		hub: l.clock,
	}, calm)
	l.startHub()
	admin := l.clientFor(t, l.cluster(calm).Config())
	must(t, admin.Create(t.Context(), namespace(vault)))
	r := l.remoteOf(t, l.cluster(calm))
	r.register(unhurried, runs(keepers, "worker"), func(s *hubv1.ClusterSpec) { s.Namespaces = []string{r.name, vault} })
	r.expectReady(patience)
	t.Run("replaced", func(t *testing.T) { l.replaceAll(t, <-apps) })
	t.Run("a deleted namespace", func(t *testing.T) { l.deleteNamespace(t, admin, r.name) })
}

func (l *loss) replaceAll(t *testing.T, app registry.Remote) {
	t.Helper()
	object := func(name string, i int) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: fmt.Sprintf("%s-%d", name, i)}}
	}
	for i := range manyObjects {
		must(t, app.Client.Create(t.Context(), object("old", i)))
	}
	l.pass()
	for i := range manyObjects {
		must(t, app.Client.Create(t.Context(), object("new", i)))
	}
	for i := range manyObjects {
		must(t, app.Client.Delete(t.Context(), object("old", i)))
	}
	if holds := l.stage.remotes().HeldDeletes(); len(holds) > 0 {
		t.Errorf("the holds are %+v", holds)
	}
}

func (l *loss) deleteNamespace(t *testing.T, admin client.Client, name string) {
	t.Helper()
	secrets := func() int {
		var all corev1.SecretList
		must(t, admin.List(t.Context(), &all, client.InNamespace(vault)))
		return len(all.Items)
	}
	for i := range manyObjects {
		must(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: name, Name: fmt.Sprintf("keeper-%d", i), Labels: map[string]string{keeperLabel: "yes"},
		}}))
	}
	eventually(t, func() error {
		if n := secrets(); n != manyObjects {
			return fmt.Errorf("there are %d Secrets", n)
		}
		return nil
	})
	l.pass()
	must(t, admin.Delete(t.Context(), namespace(name)))
	eventually(t, func() error {
		err := admin.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the namespace exists, and %d Secrets: %w", secrets(), err)
	})
	if n := secrets(); n > 0 {
		t.Errorf("%d Secrets are left", n)
	}
	if holds := l.stage.remotes().HeldDeletes(); len(holds) > 0 {
		t.Errorf("the holds are %+v", holds)
	}
}

// A hub that is killed while deletes are held continues to hold them when it runs again, and an allowance for an older hold
// has no effect there.
func TestDeletes_HubKilled(t *testing.T) {
	fleettest.Slow(t, "./registry TestDeletes_NextRegistry")
	t.Parallel()
	l := &loss{stage: newStage(t, stageOptions{}, calm)}
	p := l.startHubProcess(t, "true")
	r := l.remoteOf(t, l.cluster(calm))
	admin := l.clientFor(t, l.cluster(calm).Config())
	for i := range copiesEach {
		must(t, admin.Create(t.Context(), mirrored(r.name, fmt.Sprintf("o-%03d", i))))
	}
	must(t, r.tryRegister(r.on.Kubeconfig(), quick, runs(mirrorName)))
	must(t, l.admin.Create(t.Context(), namespace(sources)))
	l.remotes = []*remote{r}
	r.expect(hubv1.ConditionDeletesHeld, metav1.ConditionTrue, hubv1.ReasonLimitExceeded, patience)
	var ids []string
	eventually(t, func() error { // A hold is in force while it is being written.
		if ids = l.stored(); len(ids) != 1 {
			return fmt.Errorf("the stored holds are %v, want one", ids)
		}
		return nil
	})
	must(t, p.cmd.Process.Signal(syscall.SIGKILL))
	<-p.ended

	p = l.startHubProcess(t, "true")
	old := fmt.Sprintf(`{"metadata":{"annotations":{%q:"mirror-configmaps-0000=%d"}}}`, hubv1.AnnotationAllowDeletes, copiesEach)
	c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: r.name}}
	must(t, l.admin.Patch(t.Context(), c, client.RawPatch("application/merge-patch+json", []byte(old))))
	for i := range 3 { // The copy of a source is created after the module has tried to delete the others.
		one := mirrored(sources, fmt.Sprintf("z-%d", i))
		must(t, l.admin.Create(t.Context(), one))
		eventually(t, func() error {
			return admin.Get(t.Context(), client.ObjectKey{Namespace: r.name, Name: one.Name}, &corev1.ConfigMap{})
		})
	}
	testkit.Equal(t, l.copies(), copiesEach-20+3, "copies are left")
	if again := l.stored(); len(again) != 1 || again[0] != ids[0] {
		t.Errorf("the stored holds are %v, want %v", again, ids)
	}
	eventually(t, func() error {
		if names, err := l.shown(); err != nil || len(names) != 1 {
			return errors.Join(err, fmt.Errorf("the hold is shown by %v", names))
		}
		return nil
	})
	p.expectAlive(t)
}
