// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/side"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

type object = *unstructured.Unstructured

func placeOf(p Params) rules.Place { return rules.Place{HubID: p.HubID, Cluster: string(p.Name)} }

// open makes what the entry needs to run. It starts no watch of the remote.
func (e *entry) open(ctx context.Context) (err error) {
	if e.table, err = e.engine.table(e.Rule); err != nil {
		return err
	}
	select {
	case <-e.table.begun:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p := e.params
	remote, err := e.engine.remoteFeed(emptyOf(e.GVK()), e)
	if err != nil {
		return err
	}
	options := syncer.PairOptions{
		Name: "sync-" + e.Name, Manager: p.Manager, Identity: e.Identity(placeOf(p)), OneToOne: e.HasFinalizers(),
		Upstream: syncer.OfHub(p.Remote, e.hubSelection()), Downstream: syncer.OfRemote(p.Remote).With(remote.view),
		Quote: e.quoteFor(), Metrics: p.Metrics, StatusLimiter: e.engine.statuses,
		Cause: "rule " + e.Name, GiveUp: e.giveUp, Report: e.report, Refused: e.refused,
	}
	if e.From == hubv1.SyncFromRemote {
		options.Upstream, options.Downstream = options.Downstream, options.Upstream
	}
	if e.pair, err = syncer.NewPair(options); err != nil {
		return err
	}
	selector := e.Selector(e.engine.cluster, e.labelsOf)
	one, how := e.Copies(placeOf(p), p.Labels)
	if patch := one.Mutate; e.From == hubv1.SyncFromRemote {
		one.Mutate = func(ctx context.Context, up, copied object) error {
			if err := e.withinLimit(ctx, up, client.ObjectKeyFromObject(copied)); err != nil {
				return err
			}
			return patch(ctx, up, copied)
		}
	}
	var copies syncer.Syncer[object] = one
	if e.CreatesNamespace() {
		copies = makesNamespace{one}
	}
	how.Select = func(up object) bool { return !e.drains && selector.Selects(up) }
	how.Hooks = []syncer.ClientHook[object]{{Name: "namespace", Upstream: syncer.Mutators[object]{Get: e.needsNamespace}}}
	if e.opened, err = syncer.Open(e.pair, copies, e.Translator(placeOf(p)), how); err != nil {
		return err
	}
	e.follow(remote, selector)
	return e.watchNamespaces()
}

func (e *entry) follow(remote *feed, selector rules.Selector) {
	finalizer, label, tenant := e.Finalizer(placeOf(e.params)), e.pair.Identity().Keys().ManagedBy, e.Tenant(placeOf(e.params))
	copies := &member{Watched: e.opened.Copies, of: remote, concerns: func(down *metav1.ObjectMeta) bool {
		return down.Labels[label] == tenant || e.isInConflict()
	}}
	originals := &member{Watched: e.opened.Originals, of: remote, concerns: func(up *metav1.ObjectMeta) bool {
		return selector.MaySelect(up) || slices.Contains(up.Finalizers, finalizer) || e.opened.Has(types.NamespacedName{Namespace: up.Namespace, Name: up.Name})
	}}
	if e.From == hubv1.SyncFromHub {
		originals.of = e.engine.feed(originals.View, &feed{view: originals.View}, e)
	} else {
		copies.of = e.engine.feed(copies.View, &feed{view: copies.View}, e)
	}
	e.watches = []*member{copies, originals}
}

// quoteFor is nil if events must repeat no text: the hub's own, and those about Secrets, which might contain values.
func (e *entry) quoteFor() kubeconfig.Quoter {
	if e.From == hubv1.SyncFromRemote || e.GVK().GroupKind() == (schema.GroupKind{Kind: "Secret"}) {
		return nil
	}
	return e.params.Quote
}

// needsNamespace fails if the Namespace is needed to select an object and cannot be read: that is no reason to delete
// a copy.
func (e *entry) needsNamespace(_ context.Context, up object) (object, error) {
	if up.GetNamespace() == "" || e.NamespaceLabels() == nil {
		return up, nil
	}
	if _, err := e.namespace(up.GetNamespace()); err != nil {
		return up, fmt.Errorf("read the labels of the namespace: %w", err)
	}
	return up, nil
}

// hubSelection is the originals, or the namespace of the copies, and the same in all apps, which share an informer.
func (e *entry) hubSelection() syncer.HubSelection {
	s := syncer.HubSelection{Permissions: e.hubRules, Until: e.ctx}
	if e.From == hubv1.SyncFromRemote {
		s.Namespaces = e.HubNamespaces()
		return s
	}
	s.Labels, s.Route = e.ObjectLabels(), hubobjects.All()
	if named := e.SourceNamespaces(e.engine.cluster); len(named) > 0 {
		s.Route, s.Keys, s.Namespaces = hubobjects.ByNamespace(), named, e.Namespaces.Names
	}
	return s
}

func (e *entry) watchNamespaces() (err error) {
	if e.NamespaceLabels() == nil {
		return nil
	}
	var from *feed
	if e.From == hubv1.SyncFromRemote {
		from, err = e.engine.remoteFeed(namespaceMetadata(), e)
	} else {
		hub := syncer.OfHub(e.params.Remote, syncer.HubSelection{Route: hubobjects.All(), Permissions: e.hubRules, Until: e.ctx})
		var view side.View
		if view, err = hub.Open(side.Want{Object: namespaceMetadata(), Refused: e.refused}); err == nil {
			from = e.engine.feed(view, &feed{view: view}, e)
		}
	}
	if err != nil {
		return err
	}
	e.namespaces, e.places = from.view.Reader(), from
	return nil
}

// inNamespace requests the originals in a namespace with its events.
func inNamespace(_ context.Context, of client.Object, _ bool) []types.NamespacedName {
	return []types.NamespacedName{{Namespace: of.GetName()}}
}

func emptyOf(kind schema.GroupVersionKind) object {
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(kind)
	return empty
}

func listOf(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	empty := &unstructured.UnstructuredList{}
	empty.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return empty
}

func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	empty := &metav1.PartialObjectMetadataList{}
	empty.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return empty
}

func partial(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	empty := &metav1.PartialObjectMetadata{}
	empty.SetGroupVersionKind(kind)
	return empty
}

func namespaceMetadata() *metav1.PartialObjectMetadata {
	return partial(corev1.SchemeGroupVersion.WithKind("Namespace"))
}

func (e *entry) labelsOf(namespace string) (map[string]string, bool) {
	found, err := e.namespace(namespace)
	return found.GetLabels(), err == nil
}

func (e *entry) namespace(name string) (*metav1.PartialObjectMetadata, error) {
	found := namespaceMetadata()
	ctx, cancel := context.WithTimeout(e.ctx, labelTimeout) // A read from memory has no caller's context.
	defer cancel()
	return found, e.namespaces.Get(ctx, types.NamespacedName{Name: name}, found)
}

// makesNamespace makes the missing namespace of a copy, and never changes one.
type makesNamespace struct{ *syncer.Copy[object] }

func (m makesNamespace) SyncDown(ctx context.Context, e syncer.Down[object]) (reconcile.Result, error) {
	result, err := m.Copy.SyncDown(ctx, e)
	if !apierrors.IsNotFound(err) {
		return result, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Target().Namespace}}
	if err := e.DownstreamAccess().Client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return result, fmt.Errorf("create the namespace of a copy: %w", err)
	}
	return m.Copy.SyncDown(ctx, e)
}

// hasCopies reports whether a rule that does not select the Cluster has copies there, as from a time when the hub did not run.
func (e *engine) hasCopies(ctx context.Context, r rules.Rule) (bool, error) {
	e.mu.Lock()
	known, runs := e.looked[r.Name], e.entries[r.Name] != nil
	e.mu.Unlock()
	if known == r.Generation && !runs {
		return false, nil
	}
	looking, found := context.WithCancel(ctx)
	defer found()
	err := newCleaner(e.params, r).eachCopy(looking, func(context.Context, *metav1.PartialObjectMetadata) error {
		found()
		return nil
	})
	switch {
	case ctx.Err() == nil && looking.Err() != nil:
		return true, nil
	case err != nil && !isAbsent(err) && !apierrors.IsForbidden(err): // A rule that never had the permission has made nothing.
		return false, fmt.Errorf("look for copies of rule %s: %w", r.Name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.looked[r.Name] = r.Generation
	return false, nil
}
