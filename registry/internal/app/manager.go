// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/clusterfx/clusterfx/registry/eventseries"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
)

// Manager is the manager of an App: a manager.Manager with a goroutine for each runnable that runs, and no other.
// controller-runtime's has one more for each of six groups, and a second recorder of events, which counts with one
// manager per remote.
//
// Start runs in the goroutine of its caller, and starts the runnables in these steps; one that is added after the turn
// of its step starts at once:
//
//  1. servers (manager.Server) and webhook servers;
//  2. the cluster and all other runnables with a GetCache method, until their caches have synced, for five seconds at most;
//  3. runnables that need no leader election;
//  4. the Warmup of all controllers, without waiting for its end;
//  5. all other runnables. Then the channel of Elected is closed.
//
// The first error of a runnable ends the manager and is the error of Start; the end of the context ends it with nil.
// Start then refuses further runnables, ends the steps so that no runnable loses what it uses, logs further errors, and
// returns when all have returned, however long that takes: first 3 with each Warmup, since a controller takes its lock in
// both; then 5, whose objects are in the caches until then; the caches, and with the cluster the recorder of events;
// webhook servers, then servers.
//
// Other than in controller-runtime v0.25:
//
//   - An error during the start, and the end of the context, end the start. controller-runtime waits for the caches
//     first, and spins while it waits after the end of the context (controller-runtime#3440).
//   - Add does not wait for the end of the start, so a runnable may add runnables.
//   - Start waits for each Warmup that has not returned.
//   - Contexts of runnables have the values, and goroutines the pprof labels, of the context of Start, whoever adds
//     them.
//   - Checks and handlers for servers that an App lacks are ignored at any time.
//   - There is no election, no metrics server, no health probes and no limit to the time of a stop.
type Manager struct {
	cluster.Cluster
	log         logr.Logger
	controllers config.Controller // the defaults
	elected     chan struct{}
	webhooks    func() webhook.Server
	converters  conversion.Registry

	mu      sync.Mutex // protects the fields and the groups; not held while a runnable or a cache is called
	started bool
	stopped bool // no further runnable is added
	groups  [steps]group

	// fail ends the manager with the error of a runnable. It is set before the first runnable runs.
	fail func(error)
}

var _ manager.Manager = (*Manager)(nil)

// NewManager returns a manager of a cluster, which the manager starts. Nothing else may start the cluster.
func NewManager(c cluster.Cluster, log logr.Logger, controllers config.Controller) *Manager {
	m := &Manager{Cluster: c, log: log, controllers: controllers, elected: make(chan struct{}), converters: conversion.NewRegistry()}
	m.webhooks = sync.OnceValue(m.newWebhookServer)
	m.groups[stepCaches].waiting = []member{memberWithCache(c)}
	return m
}

// step is the step of the start to which a runnable belongs, in the order of the start.
type step int

const (
	stepServers step = iota
	stepWebhooks
	stepCaches
	stepUnelected // runnables that need no leader election
	stepWarmups
	stepElected
	steps
)

type (
	// hasCache is a cluster.Cluster.
	hasCache interface {
		manager.Runnable
		GetCache() ctrlcache.Cache
	}
	// warmer is a controller: Warmup starts its sources.
	warmer interface {
		Warmup(ctx context.Context) error
	}
)

// Add adds a runnable. A runnable that is added after the turn of its step starts at once.
func (m *Manager) Add(r manager.Runnable) error {
	at, one := stepOf(r)
	warm, warms := r.(warmer)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return errStopped
	}
	if warms && at >= stepUnelected {
		m.groups[stepWarmups].add(member{Runnable: manager.RunnableFunc(warm.Warmup)}, m.fail)
	}
	m.groups[at].add(one, m.fail)
	return nil
}

func stepOf(r manager.Runnable) (step, member) {
	one := member{Runnable: r}
	switch r := r.(type) {
	case *manager.Server:
		if !r.NeedLeaderElection() {
			return stepServers, one
		}
	case hasCache:
		return stepCaches, memberWithCache(r)
	case webhook.Server:
		return stepWebhooks, one
	case manager.LeaderElectionRunnable:
		if !r.NeedLeaderElection() {
			return stepUnelected, one
		}
	}
	return stepElected, one
}

func memberWithCache(r hasCache) member {
	return member{Runnable: r, ready: func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, headStart)
		defer cancel()
		return r.GetCache().WaitForCacheSync(ctx) || ctx.Err() != nil
	}}
}

// headStart is how long other runnables wait for the cache of a cluster: one that a module has added and that does not respond
// must not keep other modules from starting.
const headStart = 5 * time.Second

// Elected returns a channel that is closed when all runnables of the start have started: an App needs no election.
func (m *Manager) Elected() <-chan struct{} { return m.elected }

// GetAPIReader returns a reader whose errors quote no response.
func (m *Manager) GetAPIReader() client.Reader { return cache.CheckedReader(m.Cluster.GetAPIReader()) }

// GetLogger returns the logger of the manager.
func (m *Manager) GetLogger() logr.Logger { return m.log }

// GetControllerOptions returns the defaults of controllers.
func (m *Manager) GetControllerOptions() config.Controller { return m.controllers }

// GetConverterRegistry returns the registry of converters.
func (m *Manager) GetConverterRegistry() conversion.Registry { return m.converters }

// GetWebhookServer returns controller-runtime's default server; the first call adds it to the manager.
func (m *Manager) GetWebhookServer() webhook.Server { return m.webhooks() }

func (m *Manager) newWebhookServer() webhook.Server {
	server := webhook.NewServer(webhook.Options{})
	if err := m.Add(server); err != nil {
		m.log.Error(err, "A webhook server does not serve")
	}
	return server
}

// AddHealthzCheck ignores the check: an App has no server for it.
func (m *Manager) AddHealthzCheck(name string, _ healthz.Checker) error {
	m.log.Info("A health check is ignored, because the manager serves none", "check", name)
	return nil
}

// AddReadyzCheck ignores the check: an App has no server for it.
func (m *Manager) AddReadyzCheck(name string, _ healthz.Checker) error {
	m.log.Info("A readiness check is ignored, because the manager serves none", "check", name)
	return nil
}

// AddMetricsServerExtraHandler ignores the handler: an App has no server for it.
func (m *Manager) AddMetricsServerExtraHandler(path string, _ http.Handler) error {
	m.log.Info("A handler for the metrics server is ignored, because the manager has no such server", "path", path)
	return nil
}

// MakeManager makes the manager of the App. log is of its controllers.
func (l *Life) MakeManager(connection *rest.Config, mapper meta.RESTMapper, log logr.Logger, options cluster.Option) error {
	c, err := cluster.New(connection, options, func(o *cluster.Options) {
		o.Scheme, o.Logger, o.NewCache = l.Scheme, log.V(1), l.NewCache
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil }
		for _, namespace := range l.Desired.Namespaces {
			if o.Cache.DefaultNamespaces == nil {
				o.Cache.DefaultNamespaces = map[string]ctrlcache.Config{}
			}
			o.Cache.DefaultNamespaces[namespace] = ctrlcache.Config{}
		}
	})
	if err != nil {
		return fmt.Errorf("build the manager: %w", err)
	}
	l.manager = NewManager(c, log.V(1), config.Controller{
		// Names are unique in the process and never released, and every remote runs the same modules
		// (controller-runtime#2994).
		SkipNameValidation:    new(true),
		EnableWarmup:          new(true), // shows when a controller has its objects; see contain.Manager.Add
		CacheSyncTimeout:      Never,     // it would end every module of the app; see AwaitSync
		ReconciliationTimeout: l.Limits.ReconcileTimeout,
		Logger:                log,
	})
	l.Manager = l.manager
	l.Events.EventRecorder = eventseries.ByNote(l.manager.GetEventRecorder("clusterfx"), l.Scheme)
	return nil
}

// lateRecorder drops events until the manager runs: the first event starts goroutines, which only a started manager
// stops, so each failed start would leave some behind.
type lateRecorder struct {
	events.EventRecorder
	running atomic.Bool
}

func (l *lateRecorder) open() { l.running.Store(true) }

func (l *lateRecorder) Eventf( //nolint:revive // argument-limit: client-go's interface.
	regarding, related runtime.Object, eventType, reason, action, note string, args ...any,
) {
	if l.running.Load() {
		l.EventRecorder.Eventf(regarding, related, eventType, reason, action, note, args...)
	}
}
