// SPDX-License-Identifier: Apache-2.0

package hubwatch

import (
	"context"
	"maps"
	"net/http"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// entry is the informer of one selection, with its index.
type entry struct {
	pool   *Pool
	of     Selection
	users  int             // its subscriptions; protected by the lock of the Pool
	ctx    context.Context //nolint:containedctx // The life of the informer.
	cancel context.CancelFunc
	cache  *cache.Cache
	reader client.Reader // of the API server
	synced chan struct{} // closed when the index has the initial objects

	mu      sync.RWMutex // protects the fields; held for a few instructions, but while a new route is indexed
	objects map[client.ObjectKey]client.Object
	routes  map[Route]*index
	block   cache.Block // why the objects cannot be listed; zero if they can
}

// user is the module of the informers, for cache.
const user = "hub"

// unlimited: the hub's API server is trusted, as for the cache of the hub's manager.
const unlimited = 1 << 40

func (p *Pool) newEntry(s Selection) (*entry, error) {
	e := &entry{
		pool: p, of: s, synced: make(chan struct{}),
		objects: map[client.ObjectKey]client.Object{}, routes: map[Route]*index{},
	}
	e.ctx, e.cancel = context.WithCancel(p.ctx)
	limiter := meter.NewLimiter(p.options.Schemas, unlimited)
	config := rest.CopyConfig(p.options.Hub)
	config.QPS = -1
	httpClient := &http.Client{Transport: &transport.Chain{
		Base: p.options.Transport, Fence: e.ctx, UserAgent: p.options.UserAgent, Timeout: p.options.Timeout, Meter: limiter,
	}}
	var err error
	if e.reader, err = p.newReader(config, httpClient); err != nil {
		e.cancel()
		return nil, err
	}
	e.cache, err = cache.New(config, ctrlcache.Options{
		HTTPClient: httpClient, Scheme: p.options.Scheme, Mapper: p.options.Mapper, DefaultLabelSelector: s.Labels,
		DefaultFieldSelector: e.fields(), DefaultNamespaces: e.namespaces(),
	}, cache.Options{
		Context: e.ctx, Scheme: p.options.Scheme, Log: p.options.Log, Timeout: p.options.Timeout, Meter: limiter,
		Limits: cache.Limits{
			MaxObjects: unlimited, MaxBytes: unlimited, Handling: time.Hour,
			StaleAfter: p.options.StaleAfter, StaleTolerance: p.options.StaleTolerance,
		},
		Blocked: e.blocked, Missed: func() {}, Stale: func() {},
		Fail:   func(err error) { p.options.Log.Error(err, "Failed to keep objects of the hub", "kind", s.Kind.Kind) },
		Reader: func(context.Context) string { return "" },
	})
	if err != nil {
		e.cancel()
		return nil, err
	}
	e.cache = e.cache.As(user, nil, false)
	return e, nil
}

// fields keeps objects of the hidden namespace in the API server.
func (e *entry) fields() fields.Selector {
	if hidden := e.pool.options.Hidden; hidden != "" && e.of.Namespaced && e.of.isEverywhere() {
		return fields.OneTermNotEqualSelector("metadata.namespace", hidden)
	}
	return nil
}

func (e *entry) namespaces() map[string]ctrlcache.Config {
	if e.of.isEverywhere() {
		return nil
	}
	all := map[string]ctrlcache.Config{}
	for _, namespace := range e.of.Namespaces {
		all[namespace] = ctrlcache.Config{}
	}
	return all
}

// retryEvery follows an error, such as of the mapping of the kind.
const retryEvery = 5 * time.Second

func (e *entry) run() {
	defer e.cancel()
	pprof.SetGoroutineLabels(e.ctx) // The goroutine of the first subscriber has those of its app.
	var caching sync.WaitGroup
	defer caching.Wait()
	caching.Go(func() { _ = e.cache.Start(e.ctx) }) // It returns when the context ends.
	caching.Go(func() { wait.UntilWithContext(e.ctx, e.purge, purgeEvery) })
	var handle toolscache.ResourceEventHandlerRegistration
	err := wait.PollUntilContextCancel(e.ctx, retryEvery, true, func(ctx context.Context) (bool, error) {
		informer, err := e.cache.GetInformer(ctx, e.of.Object, ctrlcache.BlockUntilSynced(false))
		if err == nil {
			handle, err = informer.AddEventHandler(e)
		}
		if err != nil && ctx.Err() == nil {
			e.pool.options.Log.Error(err, "Failed to watch objects of the hub; the hub tries again", "kind", e.of.Kind.Kind)
		}
		return err == nil, nil
	})
	if err != nil {
		return // the context has ended
	}
	<-handle.HasSyncedChecker().Done() // also at the end of the context
	if handle.HasSynced() {
		close(e.synced)
	}
	<-e.ctx.Done()
}

func (e *entry) end() {
	e.cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.objects, e.routes = nil, nil
}

func (e *entry) blocked(_ string, why cache.Block) {
	why = ofHub(e.of.Kind.Kind, why)
	e.mu.Lock()
	if e.block == why || e.routes == nil {
		e.mu.Unlock()
		return
	}
	e.block = why
	all := e.subscriptions()
	e.mu.Unlock()
	if why.Message == "" {
		e.pool.options.Log.Info("Objects of the hub can be listed again", "selection", e.of.Name())
	} else {
		e.pool.options.Log.Info("Objects of the hub cannot be listed", "selection", e.of.Name(), "problem", why.Message)
	}
	for _, s := range all {
		e.pass(s)
	}
}

// subscriptions needs the lock.
func (e *entry) subscriptions() (all []*Subscription) {
	for _, ix := range e.routes {
		all = slices.AppendSeq(all, maps.Keys(ix.all))
	}
	return all
}

func (e *entry) tell(s *Subscription) {
	e.mu.RLock()
	isBlocked := e.block != cache.Block{}
	e.mu.RUnlock()
	if isBlocked {
		e.pass(s)
	}
}

// pass passes on why objects cannot be listed until the Subscription has what holds now: two goroutines may arrive in
// another order.
func (e *entry) pass(s *Subscription) {
	for first, last := true, (cache.Block{}); ; first = false {
		e.mu.RLock()
		now := e.block
		e.mu.RUnlock()
		if !first && now == last {
			return
		}
		s.want.Blocked(s.Type(), now)
		last = now
	}
}

// ofHub: the messages of the cache are about remotes.
func ofHub(kind string, why cache.Block) cache.Block {
	switch why.Cause {
	case cache.Missing:
		why.Message = "the hub does not serve the API of " + kind
	case cache.Denied:
		why.Message = "the hub lacks the permission to list and watch " + kind + " in its own cluster"
	case cache.Failing, cache.Misfit:
		why.Message = "in the hub: " + why.Message
	}
	return why
}

// inHub tells the type from one that is watched in the remote.
const inHub = " of the hub"

func (e *entry) isSynced() bool {
	select {
	case <-e.synced:
		return true
	default:
		return false
	}
}
