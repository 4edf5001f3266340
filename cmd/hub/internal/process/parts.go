// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"

	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/reconcilers/renewal"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// parts leaves the manager's start to the caller.
func parts(o hubOptions, newManager func() (ctrl.Manager, error)) fx.Option {
	settings := o.settings()
	o.Registry.HubParts = o.hubParts(settings)
	o.Registry.Explain = clusterstatus.WithAdvice
	return fx.Options(
		o.base(),
		fx.Supply(settings),
		fx.Provide(
			newManager,
			func(mgr ctrl.Manager) hubValues { return newHubValues(mgr, o) },
		),
		cluster.Module,
		o.registration(),
		fx.Supply(renewal.Settings{Namespace: o.CredentialsNamespace}),
		renewal.Module,
	)
}

// base has the registry and the modules, and lacks a manager.
func (o Options) base() fx.Option {
	all := []fx.Option{
		fx.RecoverFromPanics(),
		fx.StopTimeout(o.stopTimeout() + hooksReserve),
		fx.WithLogger(func() fxevent.Logger { return logging.FX(o.Log) }),
		fx.Supply(o.Log, o.Registry, o.Registry.Monitor),
		registry.FX,
	}
	for _, m := range o.Modules {
		all = append(all, m.Option())
	}
	return fx.Options(all...)
}

func (o Options) settings() cluster.Settings {
	settings := cluster.Settings{
		Namespace: o.CredentialsNamespace, Concurrency: o.Concurrency,
		Policy: o.Registry.Policy, HubID: o.Registry.HubID, RemoveWithin: o.RemoveWithin,
		AggregateMetrics: o.Registry.AggregateMetrics,
	}
	if !o.Alone {
		settings.Replica = o.Registry.Replica
	}
	return settings
}

func (o hubOptions) hubParts(settings cluster.Settings) registry.HubPartOptions {
	return registry.HubPartOptions{
		Provide: fx.Supply(settings, o.NATS),
		Once:    o.once, WithRemotes: o.withRemotes,
		Manager: func() ctrl.Options { return cluster.ManagerOptions(o.CredentialsNamespace) },
	}
}

// AppOptions returns the hub's App for tools that look at its graph. It cannot be built.
func AppOptions(modules []registry.Module) (fx.Option, error) {
	o, err := Options{Config: &rest.Config{}, Modules: modules, Alone: true}.withDefaults()
	if err != nil {
		return nil, err
	}
	return parts(hubOptions{Options: o}, func() (ctrl.Manager, error) { return nil, errors.New("the App of a graph has no manager") }), nil
}

// HubPartOptions returns the App of a module's hub part, for such tools. modules are the hub's.
func HubPartOptions(modules []registry.Module, m registry.Module) fx.Option {
	o := registry.Options{Modules: modules, HubParts: hubOptions{}.hubParts(cluster.Settings{})}
	return o.HubPartGraph(m)
}

// ValidateModules checks the modules and their configuration as a hub does at its start.
func ValidateModules(modules []registry.Module, configs []moduleconfig.Config) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	_, err = registry.New(registry.Options{
		Hub: &rest.Config{}, HubMapper: meta.NewDefaultRESTMapper(nil), Scheme: scheme, Modules: modules, ModuleConfigs: configs,
	})
	return err
}
