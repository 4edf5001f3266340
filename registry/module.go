// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/boundcache"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Module is a named part of the control plane: code that runs in the app of every remote, in
// the hub, or in both. Make one with NewModule.
type Module struct {
	inner catalog.Module
	// entry has the operator's configuration, and rules are the permissions that follow from it, of a module that was configured
	// with ConfigureModules. The zero values mean the defaults.
	entry  *catalog.Entry
	rules  *catalog.ConfigRules
	inputs []Input
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
	// HubRuns says in which replicas Hub runs, if several replicas of the hub share its remotes. There is no default: such a
	// hub does not start with a module that has a hub part and does not say it. A hub that is alone runs every hub part.
	HubRuns HubRuns
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
	// kinds that have a namespace. CredentialsNamespace represents the namespace of the hub's Secrets, whatever its name is.
	// Default: none, HubRules apply to all namespaces.
	HubNamespaces []string
	// RulesOf returns permissions that follow from the configuration, in addition to Rules and HubRules, so that the
	// module is granted what its configuration needs. At a remote the overrides that apply there count. Default: none.
	RulesOf RulesFunc
	// Deletes are the limits of the objects that the module deletes; see package registry/deletes. Default: the limits
	// of every module.
	Deletes deletes.Limits
	// Inputs are the kinds of values outside of Kubernetes that users write for the module, as in a bucket of NATS. Tools
	// check a value before they write it. Default: none.
	Inputs []Input
}

// Input is a kind of values that users write for a module.
type Input struct {
	// Name is where the values are, as the name of a bucket.
	Name string
	// Check returns an error about a value, which names the wrong field.
	Check func(value []byte) error
}

// CredentialsNamespace represents Options.CredentialsNamespace in ModuleOptions.HubNamespaces, or the namespace default in a registry
// without that.
const CredentialsNamespace = "(credentials)"

// Selector selects the remotes that run a module. The zero Selector selects all remotes.
//
// The operator's settings (labels, spec.modules) decide whether a module is selected at all. The properties of the
// remote (its APIs, its version) decide whether a selected module can run: a module that cannot run is left out of
// the app and waits, and the other modules run. The registry decides again whenever these change; a change of the
// running modules replaces the app, as a change of spec.modules does.
type Selector struct {
	// Labels picks remotes by the labels of their Cluster. Default: nil, all. A Cluster whose
	// spec.modules names the module has it whatever its labels are, and the field clusters of the operator's
	// configuration replaces Labels.
	Labels labels.Selector
	// OnRequest keeps the module out of every remote whose spec.modules does not name it, unless the field clusters
	// of the operator's configuration selects the remote. Default: false, a module is on.
	OnRequest bool
	// Requires are kinds that the remote has to serve: the module waits until it does, and is stopped
	// when it no longer does. The hub looks for a missing kind every ten seconds. Default: none.
	Requires []schema.GroupVersionKind
	// MinVersion is the first version of Kubernetes that the module works with, such as "1.30", and BelowVersion the
	// first later version that it does not work with. Pre-releases and the builds of vendors count as the version
	// that they are based on. Default: "", any.
	MinVersion, BelowVersion string
}

// CacheFilter says which objects of a kind a module needs from the caches of remotes, and which parts of them. It goes
// into ModuleOptions.CacheFilters, or is returned by the method CacheFilters() []CacheFilter of the module's
// configuration.
//
// A filter applies to the module that declares it, wherever the module reads from the cache of a remote: with Client,
// Cache and Manager of Remote, and in its hub part with WithClient, WithCluster and registry/watch. An object that the
// filter leaves out does not exist there: Get returns NotFound. APIReader of Remote reads all objects.
//
// Filters of two modules for one kind never conflict. Modules without a filter share an informer of all objects, as
// they do without any filters; modules with the same selectors and namespaces, and without Transform, share another
// one; and each other filter has its own. So a filter saves memory if no other module needs all objects of the kind.
// The objects of all informers count towards Limits.
type CacheFilter struct {
	// Object is an empty object of the kind. The filter holds for the kind read as a typed object, as an unstructured
	// one and as metadata.
	Object client.Object
	// Labels and Fields select objects. The API server evaluates them; it accepts few fields. Default: all objects.
	Labels labels.Selector
	Fields fields.Selector
	// Namespaces are the namespaces whose objects are selected. If spec.namespaces of the Cluster limits the cache,
	// too, the namespaces are the intersection. They do not apply to a kind without namespaces. Default: all
	// namespaces.
	Namespaces []string
	// Transform removes from an object the fields that the module does not need, before the object is stored. It must
	// not keep the object, must not block, and is called more than once for some objects. The object has the type
	// that the module reads: a *metav1.PartialObjectMetadata for metadata. A panic fails the module. Default: objects
	// are stored without managedFields, and otherwise whole.
	Transform func(client.Object)
}

// boundFilters returns the filters as the caches have them.
func boundFilters(filters []CacheFilter) []boundcache.Filter {
	var all []boundcache.Filter
	for _, f := range filters {
		all = append(all, boundcache.Filter(f))
	}
	return all
}

// modulesGroup is the fx value group that collects the modules of a hub.
const modulesGroup = "clusterfx-modules"

// AsCleanup marks a constructor of a CleanupStep, so that its result becomes a step of the app. It goes into an
// fx.Provide in the remote part of a module. The constructor may ask for everything that Remote lists.
func AsCleanup(constructor any) any {
	return fx.Annotate(constructor, fx.ResultTags(`group:"clusterfx-cleanup"`))
}

// NewModule returns a module. Its name, a DNS label of 2 to 32 characters, appears in conditions, logs and metrics
// and in spec.modules of Cluster objects. A bad name is reported when the hub starts, together with all other bad
// names.
func NewModule(name string, o ModuleOptions) Module {
	parts := catalog.Parts{Remote: o.Remote, Hub: o.Hub, ForHubParts: o.ForHubParts}
	if o.Hub != nil && o.Config.hub != nil {
		parts.Hub = fx.Options(o.Config.hub(name), o.Hub)
	}
	return Module{inner: catalog.Module{
		Name: name, Description: o.Description, Parts: parts, Select: catalog.Selector(o.Select),
		Config: o.Config.remote, CacheFilters: boundFilters(o.CacheFilters),
		Rules: o.Rules, HubRules: o.HubRules, HubNamespaces: o.HubNamespaces, RulesOf: o.RulesOf.inCatalog(o.Config),
		HubRuns: catalog.HubRuns(o.HubRuns), Deletes: o.Deletes,
	}, inputs: o.Inputs}
}

// inCatalog returns the modules as the catalog has them.
func inCatalog(modules []Module) []catalog.Module {
	all := make([]catalog.Module, 0, len(modules))
	for _, m := range modules {
		all = append(all, m.inner)
	}
	return all
}

// Name returns the module's name.
func (m Module) Name() string { return m.inner.Name }

// Description returns the sentence given in ModuleOptions.
func (m Module) Description() string { return m.inner.Description }

// Inputs returns the kinds of values that users write for the module. Callers must not change them.
func (m Module) Inputs() []Input { return m.inputs }

// HubRuns returns where the hub part of the module runs; empty if the module does not say it.
func (m Module) HubRuns() HubRuns { return HubRuns(m.inner.HubRuns) }

// HasHubPart reports whether the module has a hub part.
func (m Module) HasHubPart() bool { return m.inner.Hub != nil }

// Rules returns the permissions that the module needs in a remote, with those that follow from its configuration; see
// ConfigureModules. Callers must not change them.
func (m Module) Rules() []rbacv1.PolicyRule {
	return slices.Concat(m.inner.Rules, m.configRules().Remote)
}

// HubRules returns the permissions that the module needs in the hub whatever its configuration is. Callers must not change them.
func (m Module) HubRules() []rbacv1.PolicyRule { return m.inner.HubRules }

// HubNamespaces returns the namespaces of the hub that limit HubRules, none for no limit. Callers must not change
// them.
func (m Module) HubNamespaces() []string { return m.inner.HubNamespaces }

// IsOnRequest reports whether only remotes whose spec.modules names the module run it; see Selector.OnRequest.
func (m Module) IsOnRequest() bool { return m.inner.Select.OnRequest }

// Option returns the option that adds the module to the hub's App: to the group of modules whose remote parts and hub
// parts the registry runs.
func (m Module) Option() fx.Option {
	return fx.Supply(fx.Annotate(m, fx.ResultTags(`group:"`+modulesGroup+`"`)))
}

// SelectModules returns the modules that a remote with these labels and names runs in its app: those that the names choose,
// or, without names, those whose Selector the labels match. What the remote is like is not considered. Modules that were
// configured with ConfigureModules have the permissions that follow from the configuration for these labels.
func SelectModules(modules []Module, labels map[string]string, names []string) []Module {
	config := &state.Desired{Labels: labels}
	if len(names) > 0 {
		config.Modules = names
	}
	var selected []Module
	for _, m := range modules {
		if !m.inner.Wants(config) {
			continue
		}
		if m.entry != nil {
			rules := m.entry.RulesFor(labels)
			m.rules = &rules
		}
		selected = append(selected, m)
	}
	return selected
}

// ConfigType is the type of a module's configuration, with its defaults. Make one with ConfigOf. The zero ConfigType
// means that the module has no configuration.
type ConfigType struct {
	remote catalog.ConfigType
	// decode decodes layers of JSON on top of the defaults, and checks the result.
	decode func(layers []json.RawMessage) (any, error)
	// hub returns an option that provides the configuration to the hub part of the module.
	hub func(module string) fx.Option
}

// ConfigOf returns the type of a configuration. T is a struct with json tags; defaults returns a new one with the
// values of the fields that the operator does not set. The operator's configuration is decoded strictly: an unknown
// field is an error. If T or *T has a method Validate() error, a configuration for which it fails is refused, too;
// the hub reports both when it starts. If T or *T has a method CacheFilters() []CacheFilter, the module has these
// filters in addition to the filters of ModuleOptions. ModuleOptions.RulesOf returns the permissions that a configuration
// needs.
//
// The remote part of the module may ask for a T: it gets the configuration for its remote, with the overrides that
// apply there. The hub part gets the configuration without overrides. The type is the module's own in either App: two
// modules may use the same type.
func ConfigOf[T any](defaults func() T) ConfigType {
	decode := func(layers []json.RawMessage) (T, error) { return catalog.Decode(defaults(), layers) }
	return ConfigType{
		decode: func(layers []json.RawMessage) (any, error) { return decode(layers) },
		remote: catalog.ConfigType{
			Provide: func(layers []json.RawMessage) (fx.Option, error) {
				config, err := decode(layers)
				return fx.Provide(func() (T, error) { return config, err }, fx.Private), err
			},
			Filters: func(layers []json.RawMessage) []boundcache.Filter {
				config, err := decode(layers)
				if one, ok := any(&config).(interface{ CacheFilters() []CacheFilter }); ok && err == nil {
					return boundFilters(one.CacheFilters())
				}
				return nil
			},
		},
		hub: func(module string) fx.Option {
			return fx.Provide(func(o hubOptions) (T, error) {
				return decode([]json.RawMessage{o.configOf(module)})
			}, fx.Private)
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
	i := slices.IndexFunc(configs, func(c moduleconfig.Config) bool { return c.Name == module })
	if i < 0 {
		return nil
	}
	return configs[i].Config
}

// locatedModules returns the modules with the names of their namespaces in the hub.
func (o Options) locatedModules() []catalog.Module {
	all := inCatalog(o.Modules)
	for i := range all {
		if at := slices.Index(all[i].HubNamespaces, CredentialsNamespace); at >= 0 {
			all[i].HubNamespaces = slices.Clone(all[i].HubNamespaces)
			all[i].HubNamespaces[at] = cmp.Or(o.CredentialsNamespace, metav1.NamespaceDefault)
		}
	}
	return all
}

// newCatalog checks the modules and their configuration and reports all errors: in names, selectors, configurations,
// and every module's graph alone and together with the others. It builds nothing and sends no request.
func newCatalog(o Options) (catalog.Catalog, error) {
	all, err := catalog.New(catalog.Options{Modules: o.locatedModules(), Scheme: o.Scheme, SharedBy: declaredBy})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(all.Configure(o.ModuleConfigs)...); err != nil {
		return nil, err
	}
	return all, all.Resolve(sharedValues(o.Shared), checkGraph)
}
