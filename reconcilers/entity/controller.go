// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// Reconciler makes the secondaries of a primary in one cluster.
type Reconciler[T any] interface {
	// Reconcile is called for an entity that can be decoded. It calls s.Apply for each secondary that shall exist,
	// s.Delete or s.DeleteOthers for each that shall not. The Report, or the error, which is tried again, becomes its
	// status in this cluster.
	Reconcile(ctx context.Context, e *Entity[T], s *Secondaries) (Report, error)
}

// Func is a Reconciler of a function.
type Func[T any] func(ctx context.Context, e *Entity[T], s *Secondaries) (Report, error)

// Reconcile calls f.
func (f Func[T]) Reconcile(ctx context.Context, e *Entity[T], s *Secondaries) (Report, error) {
	return f(ctx, e, s)
}

// Gone is a Reconciler that keeps more for an entity than secondaries.
type Gone interface {
	// Gone is called when an entity and its secondaries have gone, perhaps again, and for keys that never had any. An
	// error is tried again.
	Gone(ctx context.Context, key string) error
}

// Report is the result of a reconcile.
type Report struct {
	Ready           bool
	Reason, Message string        // a word in CamelCase, Message a sentence for people. Both may be empty.
	Omit            bool          // the entity is not for this cluster, and has no part in the status
	Again           time.Duration // Again repeats the reconcile. Default: only when something changes.
}

// Options of a controller. Name, Marks, Manager and Cluster are required.
type Options struct {
	// Name is a DNS label for metrics, logs and the field manager.
	Name  string
	Marks Marks
	// Manager of the app of a remote, or of a hub part.
	Manager ctrl.Manager
	// Cluster is the Manager's cluster, for its part of the status.
	Cluster string
	// Owns are empty objects of the kinds of secondaries, which the Manager's cache watches. Default: none.
	Owns []client.Object
	// OwnsEntities are buckets with secondaries that PutEntity writes. Default: none.
	OwnsEntities []Owned
	// Deletes is registry.Remote.Deletes, or that of a HubPart. Required with OwnsEntities.
	Deletes deletes.Limiter
	// Hub has the kinds of secondaries in the hub, see Secondaries.Hub. Default: none.
	Hub *HubOptions
	// Reads are sources of further requests, as of what the Reconciler reads; see ReadsObjects, ReadsEntities and
	// hubobjects.Map. Default: none.
	Reads []source.TypedSource[Request]
	// Status receives the parts of the status. Default: none.
	Status *StatusStore
	// Resync repeats each reconcile, for external systems that report no changes, or asks the Observer, with a jitter
	// of a tenth. Default: never.
	Resync time.Duration
	// EventsAbout also gets the events of all primaries, such as a Namespace of the cluster. Default: none.
	EventsAbout client.Object
	// EventSubject is where events are published as JSON of Event: <EventSubject>.<key>. Default: none.
	EventSubject string
	// ObserveWithin bounds Observer.Observe. Default: ten seconds.
	ObserveWithin time.Duration
	// CleanWithin bounds Cleaner.Clean. Default: five seconds.
	CleanWithin time.Duration
	// Concurrency is how many entities are reconciled at once. Default: 10.
	Concurrency int
}

// Controller reconciles the entities of a store into the cluster of a manager.
type Controller[T any] struct {
	options    Options
	store      *Store[T]
	reconciler Reconciler[T]
	queue      *queue
	objects    []*objects
	entities   []*entities
	inHub      []*objects
	log        logr.Logger

	running sync.WaitGroup // mu is held while one is added
	mu      sync.Mutex
	closed  bool // no reconcile begins any longer
}

// ErrInvalidOptions means that Options cannot be used.
var ErrInvalidOptions = errors.New("invalid options of an entity controller")

const (
	defaultConcurrency   = 10
	defaultCleanWithin   = 5 * time.Second
	defaultObserveWithin = 10 * time.Second
	// unready is the retry of a key while the bucket is not complete; the end of that requests it, too.
	unready = 10 * time.Second
	// going is the retry while secondaries are being deleted; their events request it, too.
	going      = 2 * time.Second
	sweepEvery = time.Second
)

// Add adds a controller to the manager. It sends no requests.
func Add[T any](s *Store[T], r Reconciler[T], o Options) (*Controller[T], error) {
	var err error
	if o.Marks, err = o.Marks.check(); err != nil {
		return nil, err
	}
	if s == nil || r == nil || o.Manager == nil || o.Name == "" || o.Cluster == "" {
		return nil, fmt.Errorf("%w: a store, a reconciler, Name, Manager and Cluster are required", ErrInvalidOptions)
	}
	if len(o.OwnsEntities) > 0 && o.Deletes == nil {
		return nil, fmt.Errorf("%w: OwnsEntities needs Deletes", ErrInvalidOptions)
	}
	o.Marks.Bucket = s.bucket.Name()
	if err := claim(o); err != nil {
		return nil, err
	}
	c := &Controller[T]{
		options: o, store: s, reconciler: r,
		queue: &queue{bucket: s.bucket}, log: o.Manager.GetLogger().WithValues("controller", o.Name),
	}
	for _, owned := range o.OwnsEntities {
		c.entities = append(c.entities, &entities{index: newIndex[string](), bucket: owned.bucket, marks: c.hubMarks(), deletes: o.Deletes})
	}
	c.queue.owned = c.entities
	c.options.CleanWithin = cmp.Or(o.CleanWithin, defaultCleanWithin)
	c.options.ObserveWithin = cmp.Or(o.ObserveWithin, defaultObserveWithin)
	b := registry.TypedControllerManagedBy[Request](o.Manager).Named(o.Name).WatchesRawSource(c.queue).
		WithOptions(controller.TypedOptions[Request]{
			MaxConcurrentReconciles: cmp.Or(o.Concurrency, defaultConcurrency),
			SkipNameValidation:      new(true), // A name is never released, and an App may be built again.
		})
	for _, one := range o.Owns {
		kind, err := apiutil.GVKForObject(one, o.Manager.GetScheme())
		if err != nil {
			return nil, fmt.Errorf("add the controller %s: %w", o.Name, err)
		}
		owned := newObjects(one, kind, o.Marks, o.Manager.GetClient())
		c.objects = append(c.objects, owned)
		b.WatchesRawSource(owned.source(o.Manager.GetCache()))
	}
	if err := c.watchHub(b); err != nil {
		return nil, fmt.Errorf("add the controller %s: %w", o.Name, err)
	}
	for _, one := range o.Reads {
		b.WatchesRawSource(one)
	}
	if err := b.Complete(c); err != nil {
		return nil, fmt.Errorf("add the controller %s: %w", o.Name, err)
	}
	runnables := []manager.Runnable{manager.RunnableFunc(c.sweep)}
	if _, ok := r.(Observer[T]); ok && o.Resync > 0 {
		runnables = append(runnables, manager.RunnableFunc(c.observe))
	}
	if cleaner, ok := r.(Cleaner); ok {
		runnables = append(runnables, manager.RunnableFunc(func(ctx context.Context) error { return c.clean(ctx, cleaner) }))
	}
	var errs []error
	for _, runnable := range runnables {
		errs = append(errs, o.Manager.Add(runnable))
	}
	return c, errors.Join(errs...)
}

// EnqueueKey requests the reconcile of a key.
func (c *Controller[T]) EnqueueKey(key string, op Operation) { c.queue.add(key, op, 0) }

// EnqueueKeyAfter requests a key after a time. Of several requests the earliest counts.
func (c *Controller[T]) EnqueueKeyAfter(key string, op Operation, after time.Duration) {
	c.queue.add(key, op, after)
}

// Reconcile reconciles one key.
func (c *Controller[T]) Reconcile(ctx context.Context, r Request) (reconcile.Result, error) {
	if !c.begin() {
		return reconcile.Result{}, nil
	}
	defer c.running.Done()
	switch {
	case r.read != nil:
		for _, key := range r.read.keys(r.Key) {
			c.queue.add(key, OperationSecondary, 0)
		}
		return reconcile.Result{}, nil
	case r.observe:
		if observer, ok := c.reconciler.(Observer[T]); ok {
			c.observeOne(ctx, observer, r.Key)
		}
		return reconcile.Result{}, nil
	}
	return c.reconcile(ctx, r)
}

func (c *Controller[T]) reconcile(ctx context.Context, r Request) (reconcile.Result, error) {
	entry, exists := c.store.bucket.Get(r.Key)
	if !exists {
		return c.gone(ctx, r.Key)
	}
	e := c.store.decode(entry)
	if e.Err != nil { // It is present, so its secondaries stay.
		return reconcile.Result{}, c.report(ctx, e, Report{Reason: ReasonUndecodable, Message: e.Err.Error()})
	}
	s := c.secondaries(Owner{Kind: c.options.Marks.Kind, Key: r.Key, Life: e.Life}, e.Revision)
	if left, err := c.deleteEarlier(ctx, s, entry); err != nil || left {
		return reconcile.Result{RequeueAfter: going}, c.failed(ctx, e, err)
	}
	report, err := c.reconciler.Reconcile(deletes.CausedBy(ctx, c.options.Marks.Kind+" "+r.Key), e, s)
	if err != nil {
		return reconcile.Result{}, c.failed(ctx, e, err)
	}
	again := report.Again
	if _, isObserved := c.reconciler.(Observer[T]); again == 0 && c.options.Resync > 0 && !isObserved {
		again = wait.Jitter(c.options.Resync, 0.1)
	}
	return reconcile.Result{RequeueAfter: again}, c.report(ctx, e, report)
}

// failed reports an error, or that an earlier entity's secondaries are being deleted, and joins the report's own
// error.
func (c *Controller[T]) failed(ctx context.Context, e *Entity[T], err error) error {
	reported := c.report(ctx, e, reportOf(err))
	if reported == nil {
		return err // As it is: held deletes are recognized.
	}
	return errors.Join(err, reported)
}

func (c *Controller[T]) deleteEarlier(ctx context.Context, s *Secondaries, entry bucket.Entry) (left bool, err error) {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(s.lives())), func(life bucket.Birth) bool { return !entry.Includes(life) }) {
		return false, nil // Most entities have no earlier one, and NATS may be away.
	}
	ctx, _, err = c.declare(ctx, entry.Key, entry.Marker())
	if err != nil {
		return true, err
	}
	return c.collect(ctx, s, func(life bucket.Birth) bool { return !entry.Includes(life) })
}

// declare adds the evidence of a marker that a client has written; otherwise deletes count.
func (c *Controller[T]) declare(ctx context.Context, key string, m bucket.Marker) (context.Context, bool, error) {
	isProven, err := c.store.bucket.Proves(ctx, m)
	if err != nil || !isProven {
		return ctx, false, err
	}
	return deletes.OnPurpose(ctx, deletes.Tombstone(c.options.Marks.Kind+" "+key+" of bucket "+c.store.bucket.Name(), m.String())), true, nil
}

// collect deletes what f selects, and reports whether any is left.
func (c *Controller[T]) collect(ctx context.Context, s *Secondaries, f func(bucket.Birth) bool) (left bool, err error) {
	left, err = s.deleteWhere(ctx, f)
	if s.hub != nil {
		leftInHub, errHub := s.hub.deleteWhere(ctx, f)
		left, err = left || leftInHub, errors.Join(err, errHub)
	}
	if err != nil || left {
		return true, err
	}
	var errs []error
	for _, x := range s.entities {
		errs = append(errs, s.deleteEntities(ctx, x, func(_ string, o Owner) bool { return f(o.Life) }))
	}
	return false, errors.Join(errs...)
}

// gone deletes the secondaries of a key without an entity: those before a marker because of it, all others because
// the complete bucket lacks the key and no mark contradicts. A restored bucket may have a marker older than a
// secondary.
func (c *Controller[T]) gone(ctx context.Context, key string) (reconcile.Result, error) {
	s := c.secondaries(Owner{Kind: c.options.Marks.Kind, Key: key}, 0)
	isMarked, left, err := c.goneByMarker(ctx, s, key)
	if err != nil || left {
		return reconcile.Result{RequeueAfter: going}, err
	}
	if lives := s.lives(); !isMarked || len(lives) > 0 {
		err := c.store.bucket.Absent(key)
		for life := range lives {
			if err == nil {
				err = c.store.bucket.Check(ctx, life)
			}
		}
		if err != nil {
			c.log.V(1).Info("Did not collect the secondaries of a key", "key", key, "reason", err.Error())
			return reconcile.Result{RequeueAfter: wait.Jitter(unready, 0.5)}, nil
		}
		if left, err := c.collect(ctx, s, anyLife); err != nil || left {
			return reconcile.Result{RequeueAfter: going}, err
		}
	}
	c.store.bucket.Remember()
	if g, ok := c.reconciler.(Gone); ok {
		if err := g.Gone(ctx, key); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, c.options.Status.remove(ctx, key, c.options.Cluster)
}

// goneByMarker reports whether there is a marker, and whether any secondaries before it are left.
func (c *Controller[T]) goneByMarker(ctx context.Context, s *Secondaries, key string) (isMarked, left bool, err error) {
	marker, isMarked := c.store.bucket.Marker(key)
	if !isMarked {
		return false, false, nil
	}
	ctx, isProven, err := c.declare(ctx, key, marker)
	if err != nil || !isProven {
		return true, false, err
	}
	left, err = c.collect(ctx, s, func(life bucket.Birth) bool { return life.Revision <= marker.Revision })
	return true, left, err
}

func (c *Controller[T]) secondaries(o Owner, at bucket.Revision) *Secondaries {
	isBefore := func(life bucket.Birth) bool { return c.store.bucket.IsOfBefore(life, at) }
	s := &Secondaries{
		owner: o, marks: c.options.Marks, manager: c.options.Name, client: c.options.Manager.GetClient(),
		live: c.options.Manager.GetAPIReader(), objects: c.objects,
		event:    c.tell,
		entities: c.entities, isBefore: isBefore,
	}
	if hub := c.options.Hub; hub != nil {
		s.hub = &Secondaries{
			owner: o, marks: c.hubMarks(), manager: c.options.Name, client: hub.Client, live: hub.Client,
			objects: c.inHub, isBefore: isBefore,
			event: func(_ client.Object, action string, e Event) { c.tell(nil, action, e) }, // An app records events in its remote only.
		}
	}
	return s
}

// sweep requests all owners and all keys with a status when the bucket has become complete or accepted, or the status
// complete: an owner that is not in the bucket makes no request.
func (c *Controller[T]) sweep(ctx context.Context) error {
	var done time.Time
	wait.UntilWithContext(ctx, func(context.Context) {
		if since, ok := c.completeSince(); ok && !since.Equal(done) {
			c.requestOwners()
			done = since
		}
	}, sweepEvery)
	return nil
}

// completeSince is false if the bucket is not complete and accepted.
func (c *Controller[T]) completeSince() (time.Time, bool) {
	h := c.store.bucket.Health()
	if s := c.options.Status; s != nil {
		if status := s.bucket.Health(); status.Complete && status.Since.After(h.Since) {
			h.Since = status.Since
		}
	}
	return h.Since, h.Complete && !h.Changed
}

func (c *Controller[T]) requestOwners() {
	var all []string
	for _, x := range slices.Concat(c.objects, c.inHub) {
		all = append(all, x.primaries()...)
	}
	for _, x := range c.entities {
		all = append(all, x.primaries()...)
	}
	all = append(all, c.options.Status.orphans(c.store.bucket, c.options.Cluster)...)
	for _, key := range all {
		c.queue.add(key, OperationResync, 0)
	}
}
