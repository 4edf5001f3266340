// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/clusterfx/clusterfx/registry/internal/appmanager"
	"github.com/clusterfx/clusterfx/registry/internal/logsink"
)

// newManager gets two configurations: config has the fence of the Epoch, work that of the modules.
func (e *Epoch) newManager(config, work *rest.Config) (ctrl.Manager, error) {
	// The same messages of each remote's manager are for debugging only.
	log := logsink.QuietAfter(e.permission.Ended, e.Log).V(1)
	namespaces := map[string]cache.Config{}
	for _, ns := range e.options.Desired.Namespaces {
		namespaces[ns] = cache.Config{}
	}
	remote, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme, o.Logger = e.Scheme, log
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return e.mapper, nil }
		o.NewCache, o.NewClient = e.NewCache, e.newClients(work)
		o.Cache = cache.Options{DefaultNamespaces: namespaces}
	})
	if err != nil {
		return nil, err
	}
	return e.NewManager(remote, log, logsink.QuietAfter(e.permission.Ended, e.Log)), nil
}

// NewManager returns the manager of the App, with a logger for itself and a logger for its controllers.
func (l *Life) NewManager(c cluster.Cluster, log, ofControllers logr.Logger) ctrl.Manager {
	yes := true
	return appmanager.New(c, appmanager.Options{
		Logger: log,
		Controller: ctrlconfig.Controller{
			// Names are unique in the process and never released, and every remote runs the same modules
			// (controller-runtime#2994).
			SkipNameValidation:    &yes,
			EnableWarmup:          &yes,  // shows when a controller has its objects; see contain.Manager.Add
			CacheSyncTimeout:      Never, // it would end every module of the app; see AwaitSync
			ReconciliationTimeout: l.Limits.ReconcileTimeout,
			Logger:                ofControllers,
		},
	})
}
