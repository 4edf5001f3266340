// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Module is a named part of the control plane: code that runs in the app of every remote, in
// the hub, or in both. Make one with NewModule.
type Module struct {
	name    string
	options ModuleOptions
}

// ModuleOptions are the parts of a module.
type ModuleOptions struct {
	// Description is one sentence for people who choose among modules.
	Description string
	// Remote goes into the app of every remote that runs the module. Its constructors and
	// invokes may ask for everything that Remote lists, and for nothing of another module.
	Remote fx.Option
	// Hub goes into an App of its own in the hub, which runs once. Its constructors and invokes may ask for
	// everything that HubPart lists, for the values that ForHubParts of any module provides, and for nothing else of
	// another module. A module that has only a hub part is not shown for any remote.
	Hub fx.Option
	// ForHubParts are constructors that go into the hub part of every module: each hub part that asks for their
	// result gets a value of its own, made of its own manager and Registry. Default: none.
	ForHubParts fx.Option
	// Select says for which remotes the module is meant. Default: all.
	Select Selector
	// Config is the module's configuration: a type of its own, filled in by the operator and given to both
	// parts as a value. See ConfigOf. Default: none, the module cannot be configured.
	Config ConfigType
	// CacheFilters say which objects the module needs from the caches of remotes, one filter for a kind. The
	// configuration can add others, see ConfigOf. Default: all objects of each kind that the module reads.
	CacheFilters []CacheFilter
	// Rules are the permissions that Remote needs in a remote, HubRules the permissions that it needs in the hub. The
	// hub prints the ClusterRoles for them, and checks at each remote whether its credentials have them: a module
	// that lacks a permission waits, its status names the permission, and the other modules run. Default: none, no
	// check.
	Rules, HubRules []rbacv1.PolicyRule
	// HubNamespaces limits HubRules to these namespaces of the hub, which have to exist: the hub prints a
	// Role for each in place of the ClusterRole. Rules on Clusters and on paths apply to the whole hub in any
	// case, because these have no namespace. Name groups and resources: a rule with "*" counts as one on
	// kinds that have a namespace. Default: none, HubRules apply to all namespaces.
	HubNamespaces []string
}

// modulesGroup is the fx value group that collects the modules of a hub.
const modulesGroup = "clusterfx-modules"

// AsCleanup marks a constructor of a CleanupStep, so that its result becomes a step of the app. It goes into an
// fx.Provide in the remote part of a module. The constructor may ask for everything that Remote lists.
func AsCleanup(constructor any) any {
	return fx.Annotate(constructor, fx.ResultTags(`group:"clusterfx-cleanup"`))
}

var moduleName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}[a-z0-9]$`)

// NewModule returns a module. Its name, a DNS label of 2 to 32 characters, appears in conditions, logs and metrics
// and in spec.modules of Cluster objects. A bad name is reported when the hub starts, together with all other bad
// names.
func NewModule(name string, o ModuleOptions) Module {
	return Module{name: name, options: o}
}

// Name returns the module's name.
func (m Module) Name() string { return m.name }

// Description returns the sentence given in ModuleOptions.
func (m Module) Description() string { return m.options.Description }

// HasHubPart reports whether the module has a hub part.
func (m Module) HasHubPart() bool { return m.options.Hub != nil }

// Rules returns the permissions that the module needs in a remote. Callers must not change them.
func (m Module) Rules() []rbacv1.PolicyRule { return m.options.Rules }

// HubRules returns the permissions that the module needs in the hub. Callers must not change them.
func (m Module) HubRules() []rbacv1.PolicyRule { return m.options.HubRules }

// HubNamespaces returns the namespaces of the hub that limit HubRules, none for no limit. Callers must not change
// them.
func (m Module) HubNamespaces() []string { return m.options.HubNamespaces }

// Option returns the option that adds the module to the hub's App: to the group of modules whose remote parts and hub
// parts the registry runs.
func (m Module) Option() fx.Option {
	return fx.Supply(fx.Annotate(m, fx.ResultTags(`group:"`+modulesGroup+`"`)))
}

// ConfigType is the type of a module's configuration, with its defaults. Make one with ConfigOf. The zero ConfigType
// means that the module has no configuration.
type ConfigType struct {
	// build puts the layers on top of the defaults, checks the result and returns an option that provides it to the
	// module alone.
	build func(layers []json.RawMessage) (fx.Option, error)
	// hub returns an option that provides the configuration to the hub part of the module.
	hub func(module string) fx.Option
	// filters returns the cache filters of the configuration.
	filters func(layers []json.RawMessage) []CacheFilter
}

// filtersOf returns the cache filters of a configuration, none for a module without one. It ignores an error of the
// configuration, which build reports.
func (c ConfigType) filtersOf(layers []json.RawMessage) []CacheFilter {
	if c.filters == nil {
		return nil
	}
	return c.filters(layers)
}

// ConfigOf returns the type of a configuration. T is a struct with json tags; defaults returns a new one with the
// values of the fields that the operator does not set. The operator's configuration is decoded strictly: an unknown
// field is an error. If T or *T has a method Validate() error, a configuration for which it fails is refused, too;
// the hub reports both when it starts. If T or *T has a method CacheFilters() []CacheFilter, the module has these
// filters in addition to the filters of ModuleOptions.
//
// The remote part of the module may ask for a T: it gets the configuration for its remote, with the overrides that
// apply there. The hub part gets the configuration without overrides. The type is the module's own in either App: two
// modules may use the same type.
func ConfigOf[T any](defaults func() T) ConfigType {
	decode := func(layers []json.RawMessage) (T, error) { return decodeConfig(defaults(), layers) }
	return ConfigType{
		build: func(layers []json.RawMessage) (fx.Option, error) {
			config, err := decode(layers)
			return fx.Provide(func() (T, error) { return config, err }, fx.Private), err
		},
		hub: func(module string) fx.Option {
			return fx.Provide(func(o hubOptions) (T, error) {
				return decode([]json.RawMessage{o.configOf(module)})
			}, fx.Private)
		},
		filters: func(layers []json.RawMessage) []CacheFilter {
			config, err := decode(layers)
			if one, ok := any(&config).(interface{ CacheFilters() []CacheFilter }); ok && err == nil {
				return one.CacheFilters()
			}
			return nil
		},
	}
}

// hubOptions are the Options of the registry, where the hub's App has them.
type hubOptions struct {
	fx.In

	Options Options `optional:"true"`
}

func (o hubOptions) configOf(module string) json.RawMessage {
	configs := o.Options.ModuleConfigs
	i := slices.IndexFunc(configs, func(c ModuleConfig) bool { return c.Name == module })
	if i < 0 {
		return nil
	}
	return configs[i].Config
}

// errNoConfig says that the operator configures a module that has no configuration.
var errNoConfig = errors.New("the module has no configuration; remove its configuration from the hub")

// decode returns an option that provides a configuration to the remote part of its module. The option is empty for a
// module without a configuration.
func (c ConfigType) decode(layers ...json.RawMessage) (fx.Option, error) {
	if c.build != nil {
		return c.build(layers)
	}
	for _, layer := range layers {
		if len(layer) > 0 {
			return nil, errNoConfig
		}
	}
	return fx.Options(), nil
}

// hubOption returns an option that provides the configuration to the hub part of a module.
func (c ConfigType) hubOption(module string) fx.Option {
	if c.hub == nil {
		return fx.Options()
	}
	return c.hub(module)
}
