// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/registry/internal/logsink"
)

// managerOptions returns the options of the manager of the app.
func (e *Epoch) managerOptions(work *rest.Config) ctrl.Options {
	yes, forever := true, time.Duration(-1)
	namespaces := map[string]cache.Config{}
	for _, ns := range e.options.Desired.Namespaces {
		namespaces[ns] = cache.Config{}
	}
	return ctrl.Options{
		Scheme: e.Scheme,
		Logger: logsink.QuietAfter(e.permission.Ended, e.Log).V(1), // the same messages of each remote's manager are for debugging only
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return e.mapper, nil
		},
		NewCache:               e.NewCache,
		NewClient:              e.newClients(work),
		Cache:                  cache.Options{DefaultNamespaces: namespaces},
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		PprofBindAddress:       "0",
		// A manager that stops waiting for its runnables returns while they run, and the actor could not see that
		// they do. The actor limits the wait.
		GracefulShutdownTimeout: &forever,
		Controller: ctrlconfig.Controller{
			// Names are unique in the process and never released; every remote runs the same modules
			// (controller-runtime#2994).
			SkipNameValidation:    &yes,
			EnableWarmup:          &yes,  // shows when a controller has its objects; see contain.Manager.Add
			CacheSyncTimeout:      Never, // it would end every module of the app; see AwaitSync
			ReconciliationTimeout: e.Limits.ReconcileTimeout,
			Logger:                logsink.QuietAfter(e.permission.Ended, e.Log),
		},
	}
}
