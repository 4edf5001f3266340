// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
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
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
	"github.com/clusterfx/clusterfx/registry/rbac"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Module is a named part of the control plane: code for each remote's app, for the hub, or for both. See NewModule.
type Module struct {
	inner catalog.Module
	// ConfigureModules sets entry and rules. Zero values mean the defaults.
	entry   *catalog.Item
	rules   *catalog.ConfigRules
	inputs  []Input
	outside string
}

// ModuleOptions are the parts of a module.
type ModuleOptions struct {
	Description string // Description is one sentence for people who choose among modules.
	// Remote goes into the app of every remote that runs the module. It may ask for struct Remote, and nothing of other modules.
	Remote fx.Option
	// Hub goes into an App of its own in the hub. It may ask for all in HubPart and results of ForHubParts, and nothing else
	// of other modules. A module with only a hub part is not shown for any remote.
	Hub fx.Option
	// HubRuns says in which replicas Hub runs. Required with Hub.
	HubRuns HubRuns
	// ForHubParts are constructors for every hub part: each that asks has its own value, of its manager and Registry. Default: none.
	ForHubParts fx.Option
	Select      Selector   // Select picks remotes. Default: all.
	Config      ConfigType // Config is filled in by the operator and given to both parts as a value; see ConfigOf. Default: none.
	// CacheFilters select cached objects, one filter for a kind; ConfigOf may add others. Default: all of the kinds that it reads.
	CacheFilters []CacheFilter
	// Rules are needed in a remote, HubRules in the hub. The hub prints ClusterRoles and checks them at each remote: a module that
	// lacks one waits and its status names it; others run. Default: none, no check.
	Rules, HubRules []rbacv1.PolicyRule
	// HubNamespaces limits HubRules to existing namespaces, with a Role each, but not rules on Clusters and paths. Name groups and
	// resources: "*" counts as a kind with a namespace. CredentialsNamespace is that of the Secrets. Default: none, all namespaces.
	HubNamespaces []string
	// RulesOf adds to Rules and HubRules what the configuration needs, at a remote with its overrides. Default: none.
	RulesOf RulesFunc
	// Deletes limits the deletes of the module; see package registry/deletes. Default: the limits of every module.
	Deletes deletes.Limits
	// Outside names what the module changes that is not in Kubernetes, as in "records of a DNS server": a rehearsal cannot turn that
	// into a dry run, and leaves the module out. Default: nothing.
	Outside string
	// Inputs are values outside of Kubernetes that users write, as in a NATS bucket; tools check them before. Default: none.
	Inputs []Input
}

// Input is one kind of these values.
type Input struct {
	Name  string                   // Name is where the values are, as the name of a bucket.
	Check func(value []byte) error // Check returns an error that names the wrong field of a value.
}

// CredentialsNamespace in HubNamespaces stands for Options.CredentialsNamespace, or for default if that is not set.
const CredentialsNamespace = "(credentials)"

// Selector selects the remotes that run a module. The zero Selector selects all.
//
// The operator's settings (labels, spec.modules) decide whether a module is selected. The properties of the remote
// (APIs, version) decide whether a selected module can run: one that cannot is left out of the app and waits, and the
// others run. A change of either replaces the app.
type Selector struct {
	// Labels match the Cluster's. Default: all. A name in spec.modules goes first; the configuration's clusters replaces them.
	Labels labels.Selector
	// OnRequest is for remotes whose spec.modules names it, or that the configuration's clusters selects. Default: false, it is on.
	OnRequest bool
	// Requires are kinds that the remote must serve, else the module waits or stops. Looked for every ten seconds. Default: none.
	Requires []schema.GroupVersionKind
	// MinVersion is the first version of Kubernetes that the module works with, such as "1.30", and BelowVersion the first later one
	// that it does not work with. Pre-releases and builds of vendors count as the version that they are based on. Default: "", any.
	MinVersion, BelowVersion string
}

// CacheFilter says which objects of a kind, and which parts of them, a module needs from the caches of remotes. It goes
// into ModuleOptions.CacheFilters, or the method CacheFilters() []CacheFilter of the module's configuration returns it.
//
// It applies to its module alone, wherever that reads from the cache of a remote: with Client, Cache and Manager of
// Remote, and in the hub part with WithClient, WithCluster and registry/watch. An object that it leaves out is NotFound
// there; APIReader of Remote reads all objects.
//
// Filters never conflict: modules without a filter share an informer of all objects, modules with the same selectors
// and namespaces and no Transform share another, and each other filter has its own. So a filter saves memory only if no
// other module needs all objects of the kind. The objects of all informers count towards Limits.
type CacheFilter struct {
	// Object is an empty object of the kind. The filter holds for typed objects, unstructured ones and metadata.
	Object client.Object
	// Labels and Fields select objects, by the API server, which accepts few fields. Default: all objects.
	Labels     labels.Selector
	Fields     fields.Selector
	Namespaces []string // Namespaces selects within spec.namespaces of the Cluster, for kinds with a namespace. Default: all.
	// Transform removes fields from an object before it is stored. It must not keep the object, must not block, and may be called
	// more than once for an object. The object has the type that the module reads: a *metav1.PartialObjectMetadata for metadata. A
	// panic fails the module. Default: objects are stored whole but for managedFields.
	Transform func(client.Object)
}

func boundFilters(filters []CacheFilter) []cache.Filter {
	var all []cache.Filter
	for _, f := range filters {
		all = append(all, cache.Filter(f))
	}
	return all
}

const modulesGroup = "clusterfx-modules"

// AsCleanup marks a CleanupStep's constructor, for fx.Provide in a remote part. It may ask for everything in Remote.
func AsCleanup(constructor any) any {
	return fx.Annotate(constructor, fx.ResultTags(`group:"clusterfx-cleanup"`))
}

// NewModule returns a module. Its name, a DNS label of 2 to 32 characters, appears in conditions, logs, metrics and
// spec.modules. The hub reports all bad names when it starts.
func NewModule(name string, o ModuleOptions) Module {
	parts := catalog.Parts{Remote: o.Remote, Hub: o.Hub, ForHubParts: o.ForHubParts}
	if o.Hub != nil && o.Config.hub != nil {
		parts.Hub = fx.Options(o.Config.hub(name), o.Hub)
	}
	return Module{inner: catalog.Module{
		Name: name, Description: o.Description, Parts: parts, Select: catalog.Selector(o.Select),
		Config: o.Config.remote, CacheFilters: boundFilters(o.CacheFilters),
		Rules: o.Rules, HubRules: o.HubRules, HubNamespaces: o.HubNamespaces, RulesOf: o.RulesOf.inCatalog(o.Config),
		HubRuns: string(o.HubRuns), Deletes: o.Deletes,
	}, inputs: o.Inputs, outside: o.Outside}
}

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

// Outside returns what is given in ModuleOptions.
func (m Module) Outside() string { return m.outside }

// HubRuns returns where the hub part runs; empty without one.
func (m Module) HubRuns() HubRuns { return HubRuns(m.inner.HubRuns) }

// HasHubPart reports whether the module has a hub part.
func (m Module) HasHubPart() bool { return m.inner.Hub != nil }

// Rules returns the permissions needed in a remote, see ConfigureModules. Callers must not change them.
func (m Module) Rules() []rbacv1.PolicyRule {
	return slices.Concat(m.inner.Rules, m.configRules().Remote)
}

// HubRules returns the permissions needed in the hub whatever the configuration is. Callers must not change them.
func (m Module) HubRules() []rbacv1.PolicyRule { return m.inner.HubRules }

// HubNamespaces returns the namespaces that limit HubRules, none for no limit. Callers must not change them.
func (m Module) HubNamespaces() []string { return m.inner.HubNamespaces }

// IsOnRequest reports whether only remotes whose spec.modules names the module run it; see Selector.OnRequest.
func (m Module) IsOnRequest() bool { return m.inner.Select.OnRequest }

// Option adds the module to the hub's App.
func (m Module) Option() fx.Option {
	return fx.Supply(fx.Annotate(m, fx.ResultTags(`group:"`+modulesGroup+`"`)))
}

// SelectModules returns the modules that names choose or, without names, whose Selector matches the labels. What the
// remote is like is not considered. Modules from ConfigureModules have the permissions for these labels.
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

// ConfigType is the type of a module's configuration, with its defaults, of ConfigOf. The zero ConfigType means none.
type ConfigType struct {
	remote catalog.ConfigType
	// decode decodes layers of JSON on top of the defaults, and checks the result.
	decode func(layers []json.RawMessage) (any, error)
	hub    func(module string) fx.Option
}

// ConfigOf returns the type of a configuration. T is a struct with json tags; defaults returns a new one with the values that the
// operator does not set. Decoding is strict: an unknown field is an error. If T or *T has a method Validate() error, that checks
// the configuration, too; the hub reports both when it starts. A method CacheFilters() []CacheFilter of T or *T adds filters to
// those of ModuleOptions. ModuleOptions.RulesOf returns the permissions that a configuration needs.
//
// The remote part may ask for a T, with the overrides that apply to its remote; the hub part gets it without overrides. Two
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
			Filters: func(layers []json.RawMessage) []cache.Filter {
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

// locatedModules names the namespaces of the hub.
func (o Options) locatedModules() []catalog.Module {
	all := inCatalog(o.Modules)
	for i := range all {
		if at := slices.Index(all[i].HubNamespaces, CredentialsNamespace); at >= 0 {
			all[i].HubNamespaces = slices.Clone(all[i].HubNamespaces)
			all[i].HubNamespaces[at] = cmp.Or(o.CredentialsNamespace, metav1.NamespaceDefault)
			if o.Rehearsal != nil { // It has no permissions for the Secrets there.
				all[i].HubRules = rbac.WithoutSecrets(all[i].HubRules)
			}
		}
	}
	return all
}

// newCatalog reports all errors, of every module alone and of all together. It builds nothing and sends no request.
func newCatalog(o Options) (catalog.Catalog, error) {
	all, err := catalog.New(catalog.Options{Modules: o.locatedModules(), Scheme: o.Scheme, SharedBy: declaredBy})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(all.Configure(o.ModuleConfigs)...); err != nil {
		return nil, err
	}
	return all, all.Resolve(o.Shared, checkGraph)
}

// CleanupStep reverts the changes of a module in a remote when the remote is removed for good. Provide steps with AsCleanup:
//
//	fx.Provide(registry.AsCleanup(func(remote client.Client) registry.CleanupStep {
//		return registry.CleanupStep{Name: "inventory/configmap", Order: 10, Run: ...}
//	}))
//
// Steps run one after the other, when all controllers of the app have ended, in the order of Order and then of Name.
// A step has a share of the removal's time. If it fails with an error of the network or the API server that may pass (a
// conflict, 429, 5xx), it runs again until its share ends; after any other error there is no second try, since a removal must
// end. A step that fails does not keep the next ones from running. It must not return before it is done, and must
// return when its context ends.
type CleanupStep struct {
	Name  string                          // Name identifies the step in logs and events: the module's name, a slash and a word.
	Order int                             // Order is the step's place: steps with a lower Order run first. Default 0.
	Run   func(ctx context.Context) error // Run does the work of the step.
}
