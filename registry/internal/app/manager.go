// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/clusterfx/clusterfx/registry/eventseries"
	"github.com/clusterfx/clusterfx/registry/internal/appmanager"
)

// MakeManager makes the manager of the App. log is of its controllers.
func (l *Life) MakeManager(config *rest.Config, mapper meta.RESTMapper, log logr.Logger, options cluster.Option) error {
	c, err := cluster.New(config, options, func(o *cluster.Options) {
		o.Scheme, o.Logger, o.NewCache = l.Scheme, log.V(1), l.NewCache
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil }
		for _, namespace := range l.Desired.Namespaces {
			if o.Cache.DefaultNamespaces == nil {
				o.Cache.DefaultNamespaces = map[string]cache.Config{}
			}
			o.Cache.DefaultNamespaces[namespace] = cache.Config{}
		}
	})
	if err != nil {
		return fmt.Errorf("build the manager: %w", err)
	}
	yes := true
	l.manager = appmanager.New(c, appmanager.Options{
		Logger: log.V(1),
		Controller: ctrlconfig.Controller{
			// Names are unique in the process and never released, and every remote runs the same modules
			// (controller-runtime#2994).
			SkipNameValidation:    &yes,
			EnableWarmup:          &yes,  // shows when a controller has its objects; see contain.Manager.Add
			CacheSyncTimeout:      Never, // it would end every module of the app; see AwaitSync
			ReconciliationTimeout: l.Limits.ReconcileTimeout,
			Logger:                log,
		},
	})
	l.Manager = l.manager
	l.Events.EventRecorder = eventseries.ByNote(l.manager.GetEventRecorder("clusterfx"), l.Scheme)
	return nil
}
