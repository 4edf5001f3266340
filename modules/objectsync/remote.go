// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

const patchAgain = 5 * time.Minute

type object = *unstructured.Unstructured

// SetUp adds the pairs of all rules to the app of a remote.
func SetUp(p Params) error {
	limiter := syncer.NewStatusLimiter()
	for _, r := range p.Config.Complete() {
		one := &ruleInApp{Rule: r, params: p, cluster: string(p.Name), statuses: limiter}
		err := one.setUp()
		if errors.Is(err, rules.ErrNamespace) { // The other rules work for this cluster.
			p.Logger.Error(err, "Failed to set up a rule for this cluster", "rule", r.Name)
			continue
		}
		if err != nil {
			return fmt.Errorf("rule %s: %w", r.Name, err)
		}
	}
	return nil
}

func placeOf(p Params) rules.Place { return rules.Place{HubID: p.HubID, Cluster: string(p.Name)} }

type ruleInApp struct {
	rules.Rule
	params  Params
	cluster string
	patcher patcher
	limit   *limit // nil for rules from the hub
	// statuses limits the writes of status of all rules.
	statuses *rate.Limiter
	// For a rule from the hub: the Namespaces that it selects, and originals that are requested all together.
	namespaces, originals *hubobjects.Objects
}

func (r *ruleInApp) setUp() (err error) {
	if err := r.checkNamespaces(); err != nil {
		return err
	}
	if _, err = r.patcher.of(r); err != nil {
		return err
	}
	p := r.params
	options := syncer.PairOptions{
		Name: "sync-" + r.Name, Manager: p.Manager, Identity: r.Identity(placeOf(p)), OneToOne: r.IsOneToOne(),
		Upstream: syncer.OfHub(p.Remote, r.hubSelection()), Downstream: syncer.OfRemote(p.Remote),
		Quote: r.quoteFor(), Metrics: p.Metrics, StatusLimiter: r.statuses,
	}
	if r.From == rules.FromRemote {
		options.Upstream, options.Downstream = options.Downstream, options.Upstream
	}
	pair, err := syncer.NewPair(options)
	if err != nil {
		return err
	}
	if rules.IsServedByKubernetes(r.GVK().Group) {
		return r.register(pair)
	}
	return p.Manager.Add(&waiter{Name: "kind-of-" + r.Name, pair: pair, rule: r})
}

// checkNamespaces refuses what only the cluster's name makes known: the credentials namespace of the hub, too.
func (r *ruleInApp) checkNamespaces() error {
	if err := r.CheckNamespaces(r.cluster); err != nil {
		return err
	}
	into := r.TargetNamespaces(r.cluster)
	if i := slices.IndexFunc(into, r.params.HubObjects.IsHidden); i >= 0 && r.From == rules.FromRemote {
		return fmt.Errorf("%w: %s has the credentials", rules.ErrNamespace, into[i])
	}
	return nil
}

// quoteFor is nil if events must repeat no text: the hub's own, and those about Secrets, which might contain values.
func (r *ruleInApp) quoteFor() kubeconfig.Quoter {
	if r.From == rules.FromRemote || r.GVK().GroupKind() == (schema.GroupKind{Kind: "Secret"}) {
		return nil
	}
	return r.params.Quote
}

func (r *ruleInApp) register(pair *syncer.Pair) (err error) {
	if err := errors.Join(r.watchNamespaces(), r.watchOriginals()); err != nil {
		return err
	}
	if r.From == rules.FromRemote {
		if r.limit, err = newLimit(r); err != nil {
			return err
		}
	}
	selector := r.Selector(r.cluster, r.labelsOf)
	return syncer.Register(pair, syncer.Syncer[object](&copier{rule: r, Copy: syncer.Copy[object]{
		Called: "copies", Mutate: r.mutate, Adopt: r.adopts,
	}}), r.Translator(placeOf(r.params)), syncer.Options[object]{
		Kind: r.GVK(), Exclude: r.Exclude, Observe: r.Mode == rules.Observe,
		Select:               func(up object) bool { return selector.Selects(up) },
		OnDownstreamDeletion: syncer.DeletionPolicy(r.OnTargetDeletion),
		Hooks: []syncer.ClientHook[object]{{
			Name: "namespace", Upstream: syncer.Mutators[object]{Get: r.needsNamespace},
		}},
	})
}

// needsNamespace fails if the Namespace is needed to select an object and cannot be read: that is no reason to delete
// a copy.
func (r *ruleInApp) needsNamespace(_ context.Context, up object) (object, error) {
	if up.GetNamespace() == "" || r.NamespaceLabels() == nil {
		return up, nil
	}
	if _, err := r.namespace(up.GetNamespace()); err != nil {
		return up, fmt.Errorf("read the labels of the namespace: %w", err)
	}
	return up, nil
}

// hubSelection is the originals, or the namespace of the copies, and the same in all apps, which share an informer.
func (r *ruleInApp) hubSelection() syncer.HubSelection {
	if r.From == rules.FromRemote {
		return syncer.HubSelection{Namespaces: r.HubNamespaces()}
	}
	s := syncer.HubSelection{Labels: r.ObjectLabels(), Route: hubobjects.All()}
	if named := r.SourceNamespaces(r.cluster); len(named) > 0 {
		s.Route, s.Keys, s.Namespaces = hubobjects.ByNamespace(), named, r.Namespaces.Names
	}
	return s
}

func (r *ruleInApp) watchNamespaces() (err error) {
	if r.From != rules.FromHub || r.NamespaceLabels() == nil {
		return nil
	}
	r.namespaces, err = r.params.HubObjects.Watch(hubobjects.Selection{Object: namespaceMetadata(), Route: hubobjects.All()})
	if err != nil {
		return err
	}
	return nil
}

func (r *ruleInApp) watchOriginals() (err error) {
	if r.From != rules.FromHub || len(r.Patches) == 0 && r.NamespaceLabels() == nil {
		return nil
	}
	empty, s := &unstructured.Unstructured{}, r.hubSelection()
	empty.SetGroupVersionKind(r.GVK())
	r.originals, err = r.params.HubObjects.Watch(hubobjects.Selection{
		Object: empty, Labels: s.Labels, Namespaces: s.Namespaces, Route: s.Route,
	}, s.Keys...)
	return err
}

func namespaceMetadata() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
}

func (r *ruleInApp) labelsOf(namespace string) (map[string]string, bool) {
	found, err := r.namespace(namespace)
	return found.GetLabels(), err == nil
}

func (r *ruleInApp) namespace(name string) (*metav1.PartialObjectMetadata, error) {
	found := namespaceMetadata()
	ctx, cancel := context.WithTimeout(context.Background(), labelTimeout) //nolint:forbidigo // A read from memory has no caller's context.
	defer cancel()
	var reader client.Reader = r.params.Cache
	if r.namespaces != nil {
		reader = r.namespaces
	}
	return found, reader.Get(ctx, types.NamespacedName{Name: name}, found)
}

func (r *ruleInApp) mutate(ctx context.Context, _, copied object) error {
	p, err := r.patcher.of(r)
	if err != nil {
		return err
	}
	return p.Apply(ctx, copied)
}

type patcher struct {
	mu     sync.Mutex // protects the fields
	labels map[string]string
	made   *rules.Patcher
}

func (p *patcher) of(r *ruleInApp) (*rules.Patcher, error) {
	now := r.params.Labels()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made != nil && maps.Equal(p.labels, now) {
		return p.made, nil
	}
	made, err := r.Patcher(rules.Cluster{Name: r.cluster, Labels: now})
	if err == nil {
		p.made, p.labels = made, now
	}
	return made, err
}

func (r *ruleInApp) adopts(ctx context.Context, up, down object) bool {
	t, err := translate.Bind(r.Translator(placeOf(r.params)), r.Identity(placeOf(r.params)), r.GVK())
	if err != nil {
		return false
	}
	p, err := r.patcher.of(r)
	return err == nil && r.Adopts(ctx, p, placeOf(r.params), t.Metadata(up, client.ObjectKeyFromObject(down)), down)
}

type copier struct {
	syncer.Copy[object]
	rule *ruleInApp
}

var _ syncer.ControllerModifier = (*copier)(nil)

func (c *copier) SyncDown(ctx context.Context, e syncer.Down[object]) (reconcile.Result, error) {
	if c.rule.limit != nil {
		if again, err := c.rule.limit.check(ctx, e.Upstream, e.Session); err != nil || again > 0 {
			return reconcile.Result{RequeueAfter: again}, err
		}
	}
	result, err := c.Copy.SyncDown(ctx, e)
	return c.explained(ctx, e.Session, result, err)
}

func (c *copier) Sync(ctx context.Context, e syncer.Both[object]) (reconcile.Result, error) {
	if c.rule.limit != nil {
		if again, err := c.rule.limit.check(ctx, e.Upstream, e.Session); err != nil || again > 0 {
			return reconcile.Result{RequeueAfter: again}, err
		}
	}
	var up error
	if c.rule.Status {
		up = e.ApplyStatus(ctx, e.Downstream)
	}
	result, down := c.Copy.Sync(ctx, e)
	if result, down = c.explained(ctx, e.Session, result, down); up == nil {
		return result, down
	}
	return reconcile.Result{}, syncer.BothDirections(up, down)
}

// explained reports a patch that does not fit as an event of the original. It is tried again when that changes, and
// from time to time.
func (c *copier) explained(
	ctx context.Context, s *syncer.Session[object], result reconcile.Result, err error,
) (reconcile.Result, error) {
	if !errors.Is(err, rules.ErrPatch) {
		return result, err
	}
	told := s.Event(ctx, corev1.EventTypeWarning, rules.ReasonPatchFailed, fmt.Sprintf("Rule %s does not copy this object: %v.", c.rule.Name, err))
	return reconcile.Result{RequeueAfter: patchAgain}, told
}

func (c *copier) ModifyController(
	_ *syncer.Pair, b *registry.ControllerBuilder[reconcile.Request],
) (*registry.ControllerBuilder[reconcile.Request], error) {
	r := c.rule
	if len(r.Patches) > 0 { // They depend on the labels of the Cluster.
		b = b.WatchesRawSource(registry.Changed(r.params.Facts, func(ctx context.Context) []reconcile.Request {
			return r.requestsIn(r.reader())(ctx, &metav1.PartialObjectMetadata{})
		}))
	}
	if r.NamespaceLabels() == nil {
		return b, nil
	}
	if r.namespaces != nil {
		return b.WatchesRawSource(hubobjects.Map(r.namespaces, r.requestsIn(r.originals))), nil
	}
	return b.WatchesRawSource(source.Kind(r.params.Cache, client.Object(namespaceMetadata()),
		handler.TypedEnqueueRequestsFromMapFunc(r.requestsIn(r.params.Cache)))), nil
}

func (r *ruleInApp) reader() client.Reader {
	if r.From == rules.FromHub {
		return r.originals
	}
	return r.params.Cache
}

// requestsIn requests the originals in a namespace, or all if it has no name.
func (r *ruleInApp) requestsIn(reader client.Reader) func(context.Context, client.Object) []reconcile.Request {
	return func(ctx context.Context, namespace client.Object) []reconcile.Request {
		all := &unstructured.UnstructuredList{}
		all.SetGroupVersionKind(r.GVK().GroupVersion().WithKind(r.GVK().Kind + "List"))
		if err := reader.List(ctx, all, client.InNamespace(namespace.GetName())); err != nil {
			r.params.Logger.Error(err, "Failed to list the originals in a namespace whose labels have changed", "rule", r.Name)
			return nil
		}
		requests := make([]reconcile.Request, 0, len(all.Items))
		for i := range all.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
		return requests
	}
}
