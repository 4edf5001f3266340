// SPDX-License-Identifier: Apache-2.0

package hubobjects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// Options describe a Pool. All fields but Hidden are required.
type Options struct {
	Hub     *rest.Config
	Chain   transport.Chain // Chain has neither a Fence nor a Meter.
	Place   evidence.Place  // Place is the hub's API server.
	Scheme  *runtime.Scheme
	Schemas *meter.Schemas
	Log     logr.Logger
	// StaleAfter is how long an informer may fail before its objects are no longer current, StaleTolerance how long
	// users tolerate that.
	StaleAfter, StaleTolerance time.Duration
	// Hidden is the namespace of the credentials, which no app sees. Default: it is not known.
	Hidden string
}

// Pool has the informers of the hub's objects, for a registry. It is safe for many goroutines.
type Pool struct {
	options Options
	ctx     context.Context //nolint:containedctx // The life of the Pool, which Objects outlive.
	end     context.CancelCauseFunc
	running sync.WaitGroup // the informers; added to while ctx has not ended

	mu        sync.Mutex // protects the field
	informers map[string]*informer
}

var errClosed = errors.New("the informers of the hub's objects have ended")

// NewPool returns a Pool without informers, with the values of ctx and not its end. It sends no request. The caller
// must call Close.
func NewPool(ctx context.Context, o Options) *Pool {
	p := &Pool{options: o, informers: map[string]*informer{}}
	p.ctx, p.end = context.WithCancelCause(context.WithoutCancel(ctx))
	return p
}

// Close ends all informers, and returns when their goroutines have ended.
func (p *Pool) Close() {
	p.mu.Lock()
	p.end(errClosed)
	p.mu.Unlock()
	p.running.Wait()
}

// Source returns the Source of a module in an app.
func (p *Pool) Source(b Binding) *Source {
	return &Source{pool: p, binding: b, made: map[string]*Objects{}}
}

func (p *Pool) isHidden(namespace string) bool {
	return p.options.Hidden != "" && namespace == p.options.Hidden
}

// subscribe sends no request: the objects arrive later.
func (p *Pool) subscribe(s *Source, of resolved, keys []string) (*Objects, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return nil, context.Cause(p.ctx)
	}
	name := of.name()
	i := p.informers[name]
	if i == nil {
		var err error
		if i, err = p.newInformer(of); err != nil {
			return nil, fmt.Errorf("build the informer of %s: %w", name, err)
		}
		p.informers[name] = i
		p.running.Go(i.run)
	}
	return i.subscribe(s, of.Route, keys), nil
}

// informer is that of one selection, with its index.
type informer struct {
	pool   *Pool
	of     resolved
	ctx    context.Context //nolint:containedctx // The life of the informer.
	cancel context.CancelFunc
	cache  *cache.Cache
	synced chan struct{} // closed when the index has the initial objects

	mu      sync.RWMutex // protects the fields; held for a few instructions, but while a new route is indexed
	users   map[*Objects]struct{}
	objects map[client.ObjectKey]client.Object
	routes  map[Route]*index
	block   cache.Block          // why the objects cannot be listed; zero if they can
	refused map[*func()]struct{} // called when they cannot
}

// user is the module of the informers, for cache.
const user = "hub"

// unlimited: the hub's API server is trusted, as for the cache of the hub's manager.
const unlimited = 1 << 40

func (p *Pool) newInformer(of resolved) (*informer, error) {
	o := &p.options
	i := &informer{
		pool: p, of: of, synced: make(chan struct{}),
		users: map[*Objects]struct{}{}, refused: map[*func()]struct{}{}, objects: map[client.ObjectKey]client.Object{}, routes: map[Route]*index{},
	}
	i.ctx, i.cancel = context.WithCancel(p.ctx)
	config, chain := rest.CopyConfig(o.Hub), o.Chain
	config.QPS = -1
	chain.Fence, chain.Meter = i.ctx, meter.NewLimiter(o.Schemas, unlimited)
	selected := ctrlcache.Options{
		HTTPClient: &http.Client{Transport: &chain}, Scheme: o.Scheme, Mapper: o.Place.Mapper, DefaultLabelSelector: of.Labels,
	}
	if len(of.Namespaces) > 0 {
		selected.DefaultNamespaces = map[string]ctrlcache.Config{}
	} else if of.namespaced && o.Hidden != "" { // The API server keeps what is hidden.
		selected.DefaultFieldSelector = fields.OneTermNotEqualSelector("metadata.namespace", o.Hidden)
	}
	for _, namespace := range of.Namespaces {
		selected.DefaultNamespaces[namespace] = ctrlcache.Config{}
	}
	var err error
	i.cache, err = cache.New(config, selected, cache.Options{
		Context: i.ctx, Scheme: o.Scheme, Log: o.Log, Timeout: chain.Timeout, Meter: chain.Meter,
		Limits: cache.Limits{
			MaxObjects: unlimited, MaxBytes: unlimited, Handling: time.Hour,
			StaleAfter: o.StaleAfter, StaleTolerance: o.StaleTolerance,
		},
		Blocked: i.blocked, Missed: func() {}, Stale: func() {},
		Fail:   func(err error) { o.Log.Error(err, "Failed to keep objects of the hub", "kind", of.kind.Kind) },
		Reader: func(context.Context) string { return "" },
	})
	if err != nil {
		i.cancel()
		return nil, err
	}
	i.cache = i.cache.As(user, nil, false)
	return i, nil
}

// follow calls refused from now on, and at once if the objects cannot be listed now.
func (i *informer) follow(refused func()) (stop func()) {
	if refused == nil {
		return func() {}
	}
	key := &refused
	i.mu.Lock()
	i.refused[key] = struct{}{}
	now := i.block.Cause
	i.mu.Unlock()
	if now == cache.Denied || now == cache.Missing {
		refused()
	}
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.refused, key)
	}
}

// retryEvery follows an error, such as of the mapping of the kind.
const retryEvery = 5 * time.Second

func (i *informer) run() {
	defer i.cancel()
	pprof.SetGoroutineLabels(i.ctx) // The goroutine of the first app has labels of that app.
	var caching sync.WaitGroup
	defer caching.Wait()
	caching.Go(func() { _ = i.cache.Start(i.ctx) }) // It returns when the context ends.
	caching.Go(func() { wait.UntilWithContext(i.ctx, i.purge, purgeEvery) })
	var handle toolscache.ResourceEventHandlerRegistration
	err := wait.PollUntilContextCancel(i.ctx, retryEvery, true, func(ctx context.Context) (bool, error) {
		informer, err := i.cache.GetInformer(ctx, i.of.Object, ctrlcache.BlockUntilSynced(false))
		if err == nil {
			handle, err = informer.AddEventHandler(i)
		}
		if err != nil && ctx.Err() == nil {
			i.pool.options.Log.Error(err, "Failed to watch objects of the hub; the hub tries again", "kind", i.of.kind.Kind)
		}
		return err == nil, nil
	})
	if err != nil {
		return // the context has ended
	}
	<-handle.HasSyncedChecker().Done() // also at the end of the context
	if handle.HasSynced() {
		close(i.synced)
	}
	<-i.ctx.Done()
}

// blocked: the messages of the cache are about remotes.
func (i *informer) blocked(_ string, why cache.Block) {
	kind := i.of.kind.Kind
	switch why.Cause {
	case cache.Missing:
		why.Message = "the hub does not serve the API of " + kind
	case cache.Denied:
		why.Message = "the hub lacks the permission to list and watch " + kind + " in its own cluster"
	case cache.Failing, cache.Misfit:
		why.Message = "in the hub: " + why.Message
	}
	i.mu.Lock()
	before, users := i.block, slices.Collect(maps.Keys(i.users))
	i.block = why
	var refused []*func()
	if why.Cause == cache.Denied || why.Cause == cache.Missing {
		refused = slices.Collect(maps.Keys(i.refused))
	}
	i.mu.Unlock()
	for _, call := range refused {
		(*call)()
	}
	if before == why || len(users) == 0 {
		return
	}
	log := i.pool.options.Log.WithValues("selection", i.of.name())
	if why.Message == "" {
		log.Info("Objects of the hub can be listed again")
	} else {
		log.Info("Objects of the hub cannot be listed", "problem", why.Message)
	}
	for _, o := range users {
		o.pass(before)
	}
}

// pass passes on why objects cannot be listed until the app has what holds now: two goroutines may arrive in another
// order. The app has passed last.
func (o *Objects) pass(last cache.Block) {
	for {
		o.informer.mu.RLock()
		now := o.informer.block
		o.informer.mu.RUnlock()
		if o.ctx.Err() != nil {
			now = cache.Block{} // The source does not wait any more.
		}
		if now == last {
			return
		}
		o.source.binding.Blocked(o.what(), now)
		last = now
	}
}
