// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// scripted is a Syncer and a Starter whose functions a test sets.
type scripted struct {
	syncer.Copy[*corev1.ConfigMap]
	down  func(ctx context.Context, e syncer.Down[*corev1.ConfigMap]) (reconcile.Result, error)
	both  func(ctx context.Context, e syncer.Both[*corev1.ConfigMap]) (reconcile.Result, error)
	start func(r reconcile.Request) (bool, error)
	end   func(r reconcile.Request, result reconcile.Result, err error)
}

func (s *scripted) SyncDown(ctx context.Context, e syncer.Down[*corev1.ConfigMap]) (reconcile.Result, error) {
	if s.down == nil {
		return s.Copy.SyncDown(ctx, e)
	}
	return s.down(ctx, e)
}

func (s *scripted) Sync(ctx context.Context, e syncer.Both[*corev1.ConfigMap]) (reconcile.Result, error) {
	if s.both == nil {
		return s.Copy.Sync(ctx, e)
	}
	return s.both(ctx, e)
}

func (s *scripted) ReconcileStart(_ context.Context, r reconcile.Request) (bool, error) {
	if s.start == nil {
		return false, nil
	}
	return s.start(r)
}

func (s *scripted) ReconcileEnd(_ context.Context, r reconcile.Request, result reconcile.Result, err error) {
	if s.end != nil {
		s.end(r, result, err)
	}
}

func newScripted() *scripted {
	return &scripted{Copy: syncer.Copy[*corev1.ConfigMap]{Called: "scripted"}}
}

// The end of the manager ends a reconcile that is under way. That no goroutine is left is checked by TestMain.
// Promise: the end of the manager ends everything; nothing panics or exits.
func TestD14_TheEndOfTheManagerEndsEverything(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	s := newScripted()
	under, ended := make(chan struct{}), make(chan error, 1)
	s.down = func(ctx context.Context, _ syncer.Down[*corev1.ConfigMap]) (reconcile.Result, error) {
		close(under)
		<-ctx.Done()
		ended <- ctx.Err()
		return reconcile.Result{}, ctx.Err()
	}
	b.register(t, s, syncer.Options[*corev1.ConfigMap]{Timeout: time.Hour})
	b.run(t)
	must(t, b.up.Create(t.Context(), b.original("a", nil)))
	<-under
	b.stop()
	testkit.ErrorIs(t, <-ended, context.Canceled, "the reconcile ends with")
}

// Several objects are reconciled at once, and one object by one worker at a time.
// Promise: several workers, and one at a time for each object.
func TestD15_ConcurrencyWithTheOrderOfEachObject(t *testing.T) {
	t.Parallel()
	const workers = 3
	b := newBench(t, nil)
	s := newScripted()
	var mu sync.Mutex
	running, most := map[string]int{}, 0
	together := make(chan struct{})
	enter := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		running[name]++
		if running[name] > 1 {
			t.Errorf("%s is reconciled by two workers", name)
		}
		if len(running) > most {
			most = len(running)
			if most == workers {
				close(together)
			}
		}
	}
	leave := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		if running[name]--; running[name] == 0 {
			delete(running, name)
		}
	}
	s.down = func(ctx context.Context, e syncer.Down[*corev1.ConfigMap]) (reconcile.Result, error) {
		enter(e.Upstream.Name)
		defer leave(e.Upstream.Name)
		select {
		case <-together:
		case <-ctx.Done():
			return reconcile.Result{}, ctx.Err()
		}
		return s.Copy.SyncDown(ctx, e)
	}
	b.register(t, s, syncer.Options[*corev1.ConfigMap]{Concurrency: workers})
	b.run(t)
	for i := range workers {
		up := b.original(fmt.Sprint("a", i), map[string]string{"k": "1"})
		must(t, b.up.Create(t.Context(), up))
		b.label(t, b.up, up, "edited", "1")
	}
	for i := range workers {
		b.wait(t, fmt.Sprint("a", i), map[string]string{"k": "1"})
	}
}

// ReconcileEnd gets the request and the outcome of each reconcile that ReconcileStart has let begin.
// Promise: the end of a reconcile has its outcome, also after an error and a panic.
func TestD16_TheEndOfAReconcileHasItsOutcome(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	s := newScripted()
	errAuthor, errStart := errors.New("of the author"), errors.New("of the start")
	var mu sync.Mutex
	ends := map[string]string{}
	s.start = func(r reconcile.Request) (bool, error) {
		if r.Name == "refused" {
			return false, errStart
		}
		return r.Name == "skipped", nil
	}
	s.end = func(r reconcile.Request, result reconcile.Result, err error) {
		outcome := fmt.Sprint(result.RequeueAfter, " ", err)
		if errors.Is(err, syncer.ErrPanicked) {
			outcome = "panicked"
		}
		mu.Lock()
		defer mu.Unlock()
		if _, known := ends[r.Name]; !known && r.Namespace == b.upNS && r.Name != "kube-root-ca.crt" {
			ends[r.Name] = outcome
		}
	}
	s.down = func(ctx context.Context, e syncer.Down[*corev1.ConfigMap]) (reconcile.Result, error) {
		switch e.Upstream.Name {
		case "fails":
			return reconcile.Result{}, errAuthor
		case "panics":
			panic("on purpose")
		case "later":
			return reconcile.Result{RequeueAfter: time.Hour}, nil
		}
		return s.Copy.SyncDown(ctx, e)
	}
	b.register(t, s, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	for _, name := range []string{"refused", "skipped", "fails", "panics", "later", "works"} {
		must(t, b.up.Create(t.Context(), b.original(name, nil)))
	}
	want := map[string]string{
		"skipped": "0s <nil>", "fails": "0s of the author", "panics": "panicked", "later": "1h0m0s <nil>", "works": "0s <nil>",
	}
	eventually(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff(want, ends); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// A kind that a cluster does not serve ends the manager with an error, instead of a pair that does nothing.
// Promise: caches that do not sync are an error.
func TestD17_CachesThatDoNotSyncAreAnError(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.process(t, ctrl.Options{Controller: config.Controller{CacheSyncTimeout: 2 * time.Second}}, nil)
	translator := syncer.NewNamespaced[*unstructured.Unstructured](b.pair.Identity(), syncer.TranslatorOptions{})
	must(t, syncer.Register(b.pair, &syncer.Copy[*unstructured.Unstructured]{Called: "missing"}, translator,
		syncer.Options[*unstructured.Unstructured]{Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Missing"}}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.manager.Start(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("the manager ends with %v", err)
	}
}

// The store of names, the cache of objects and the label maps of later versions of vcluster are not ported. Translators have
// no state that could be lost, and they do not change the maps that they get.
// Promise: translators keep no state that could be lost.
func TestD18_TranslatorsHaveNoState(t *testing.T) {
	t.Parallel()
	id := syncer.Identity{Tenant: "t", TargetNamespace: "n"}
	translator := syncer.NewNamespaced[*corev1.ConfigMap](id, syncer.TranslatorOptions{HashLabels: true})
	up := &corev1.ConfigMap{}
	up.Name, up.Namespace, up.Labels, up.Annotations = "a", "b", map[string]string{"k": "1"}, map[string]string{"l": "2"}
	down := translator.Metadata(up, translator.ToDownstream(client.ObjectKeyFromObject(up))[0])
	before := []map[string]string{maps.Clone(up.Labels), maps.Clone(up.Annotations), maps.Clone(down.Labels), maps.Clone(down.Annotations)}
	translator.MetadataUpdate(up, down)
	after := []map[string]string{up.Labels, up.Annotations, down.Labels, down.Annotations}
	if !slices.EqualFunc(before, after, maps.Equal) {
		t.Error(cmp.Diff(before, after))
	}
	testkit.Equal(t, translator.Metadata(up, client.ObjectKeyFromObject(down)), down, "a second call has another result")
}
