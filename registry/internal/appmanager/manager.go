// SPDX-License-Identifier: Apache-2.0

package appmanager

import (
	"context"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

// Manager is the manager of an App.
type Manager struct {
	cluster.Cluster
	options    Options
	elected    chan struct{}
	webhooks   func() webhook.Server
	converters conversion.Registry

	mu      sync.Mutex // protects the fields and the groups; not held while a runnable or a cache is called
	started bool
	stopped bool // no further runnable is added
	groups  [steps]group

	// fail ends the manager with the error of a runnable. It is set before the first runnable runs.
	fail func(error)
}

var _ manager.Manager = (*Manager)(nil)

// Options are the options of a Manager.
type Options struct {
	// Logger is the logger of the manager. Default: log.Log.
	Logger logr.Logger
	// Controller has the defaults of controllers. Its Logger is the Logger of the Options by default.
	Controller config.Controller
}

// New returns a manager of a cluster, which the manager starts. Nothing else may start the cluster.
func New(c cluster.Cluster, o Options) *Manager {
	if o.Logger.GetSink() == nil {
		o.Logger = log.Log
	}
	if o.Controller.Logger.GetSink() == nil {
		o.Controller.Logger = o.Logger
	}
	m := &Manager{Cluster: c, options: o, elected: make(chan struct{}), converters: conversion.NewRegistry()}
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
		GetCache() cache.Cache
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
	return member{Runnable: r, ready: func(ctx context.Context) bool { return r.GetCache().WaitForCacheSync(ctx) }}
}

// Elected returns a channel that is closed when all runnables of the start have started: an App needs no election.
func (m *Manager) Elected() <-chan struct{} { return m.elected }

// GetLogger returns the logger of the manager.
func (m *Manager) GetLogger() logr.Logger { return m.options.Logger }

// GetControllerOptions returns the defaults of controllers.
func (m *Manager) GetControllerOptions() config.Controller { return m.options.Controller }

// GetConverterRegistry returns the registry of converters.
func (m *Manager) GetConverterRegistry() conversion.Registry { return m.converters }

// GetWebhookServer returns controller-runtime's default server; the first call adds it to the manager.
func (m *Manager) GetWebhookServer() webhook.Server { return m.webhooks() }

func (m *Manager) newWebhookServer() webhook.Server {
	server := webhook.NewServer(webhook.Options{})
	if err := m.Add(server); err != nil {
		m.options.Logger.Error(err, "A webhook server does not serve")
	}
	return server
}

// AddHealthzCheck ignores the check: an App has no server for it.
func (m *Manager) AddHealthzCheck(name string, _ healthz.Checker) error {
	m.options.Logger.Info("A health check is ignored, because the manager serves none", "check", name)
	return nil
}

// AddReadyzCheck ignores the check: an App has no server for it.
func (m *Manager) AddReadyzCheck(name string, _ healthz.Checker) error {
	m.options.Logger.Info("A readiness check is ignored, because the manager serves none", "check", name)
	return nil
}

// AddMetricsServerExtraHandler ignores the handler: an App has no server for it.
func (m *Manager) AddMetricsServerExtraHandler(path string, _ http.Handler) error {
	m.options.Logger.Info("A handler for the metrics server is ignored, because the manager has no such server", "path", path)
	return nil
}
