// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crrecorder "sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/clusterfx/clusterfx/registry/eventseries"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/logsink"
)

// Manager is the manager of an app as one module sees it. A failure or panic in the module's runnables, handlers and
// indexers ends the app with an error that names the module.
type Manager struct {
	ctrl.Manager
	guard *Container
	cache *cache.Cache
	// client reads from filtered caches, if the module has any, and writes on its behalf.
	client client.Client
}

// NewManager returns the manager of an app as a module sees it.
func NewManager(app *App, mgr ctrl.Manager, module string, log logr.Logger) (*Manager, error) {
	g := NewContainer(app, module, log)
	m := &Manager{Manager: mgr, guard: g, cache: mgr.GetCache().(*cache.Cache).As(module, g, true)}
	writer := mgr.GetClient()
	if m.cache.HasFilters(module) {
		var err error
		if writer, err = app.ReadingClient(m.cache); err != nil {
			return m, err
		}
	}
	m.client = g.Client(writer)
	return m, nil
}

// GetClient returns the module's client.
func (m *Manager) GetClient() client.Client { return m.client }

// GetLogger returns the module's logger. After the end of the app errors are logged for debugging only.
func (m *Manager) GetLogger() logr.Logger {
	return logsink.QuietAfter(m.guard.App.Gate.Ended, m.guard.log)
}

// GetEventRecorder returns a recorder that makes one event of each note.
func (m *Manager) GetEventRecorder(name string) crrecorder.EventRecorder {
	return eventseries.ByNote(m.Manager.GetEventRecorder(name), m.GetScheme())
}

// GetConfig is for clients that the module makes.
func (m *Manager) GetConfig() *rest.Config { return m.guard.Config(m.guard.App.Config) }

// GetHTTPClient returns the client that belongs to GetConfig.
func (m *Manager) GetHTTPClient() *http.Client {
	next := m.guard.App.Config.Transport
	if next == nil {
		next = m.Manager.GetHTTPClient().Transport
	}
	return &http.Client{Transport: m.guard.RoundTripper(next)}
}

// GetCache returns the app's cache as the module sees it.
func (m *Manager) GetCache() ctrlcache.Cache { return m.cache }

// GetFieldIndexer returns the app's cache as the module sees it.
func (m *Manager) GetFieldIndexer() client.FieldIndexer { return m.cache }

// GetControllerOptions returns the defaults of controllers, with the module's logger.
func (m *Manager) GetControllerOptions() ctrlconfig.Controller {
	o := m.Manager.GetControllerOptions()
	o.Logger = m.GetLogger()
	return o
}

// Add adds a runnable on behalf of the module.
func (m *Manager) Add(r manager.Runnable) error {
	one := runnable{Runnable: r, guard: m.guard}
	switch r := r.(type) {
	case *manager.Server, webhook.Server:
		return m.Manager.Add(r) // the manager distinguishes them by their type
	case withCache:
		return m.Manager.Add(&clusterRunnable{runnable: one, withCache: r})
	case ctrlcache.Informers:
		one.isCache = true
	}
	if w, ok := r.(warmup); ok {
		app := m.guard.App
		known := app.ControllerAdded(m.guard.Module, nameOf(r))
		if supervisorOf(r) == nil {
			m.guard.log.Info("A controller is not supervised; build it with registry.ControllerManagedBy", "controller", known.Name)
		}
		m.guard.setQueue(r, known.Name)
		err := m.Manager.Add(&controllerRunnable{runnable: one, warmer: w, known: known})
		if err != nil {
			app.ControllerRefused(m.guard.Module, known)
		}
		return err
	}
	return m.Manager.Add(&one)
}
