// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// An Option configures New. Options of one kind add up, except for Patience, whose last one wins.
type Option func(*options)

// options are the combined options of New.
type options struct {
	remotes             []string
	modules             []registry.Module
	configs             []moduleconfig.Config
	problems            []error // errors in the options themselves
	hubCRDs, remoteCRDs []fs.FS
	schemes             []func(*runtime.Scheme) error
	clusters            []func(*hubv1.Cluster)
	hub                 []func(*app.Options)
	rules               []rbacv1.PolicyRule
	patience            time.Duration
	declaredHubRights   bool
	verbose             bool
}

// defaultPatience is long, because API servers share the machine with the tests of other packages. Only failed tests
// wait for so long.
const defaultPatience = 2 * time.Minute

func newOptions(opts []Option) options {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	o.patience = cmp.Or(o.patience, defaultPatience)
	return o
}

// roles are the roles of the API servers that New needs.
func (o options) roles() []pool.Role {
	return append([]pool.Role{pool.Hub}, slices.Repeat([]pool.Role{pool.Remote}, len(o.remotes))...)
}

// Remotes requests remotes with these names, which are also the names of their Clusters. Default: none.
func Remotes(names ...string) Option {
	return func(o *options) { o.remotes = append(o.remotes, names...) }
}

// Modules are the modules of the hub. Default: none.
func Modules(modules ...registry.Module) Option {
	return func(o *options) { o.modules = append(o.modules, modules...) }
}

// NATS connects the hub to a NATS server, for modules with entities. Default: none.
func NATS(url string) Option {
	return HubOptions(func(o *app.Options) { o.NATS.URL = url })
}

// HubCRDs installs the CustomResourceDefinitions in all YAML files of these trees in the hub's API server, before the
// hub starts. A tree is an embed.FS, or os.DirFS for a folder. Default: only the hub's own CRDs.
func HubCRDs(trees ...fs.FS) Option {
	return func(o *options) { o.hubCRDs = append(o.hubCRDs, trees...) }
}

// RemoteCRDs is HubCRDs for every remote, before it is registered. Default: none.
func RemoteCRDs(trees ...fs.FS) Option {
	return func(o *options) { o.remoteCRDs = append(o.remoteCRDs, trees...) }
}

// Scheme adds kinds to the scheme of the test's own clients, which knows the kinds of Kubernetes, Cluster and
// CustomResourceDefinition. The hub gets its kinds as in production, from its modules: with Hub:
// fx.Invoke(widgetv1.AddToScheme) in their registry.ModuleOptions. Default: none.
func Scheme(adders ...func(*runtime.Scheme) error) Option {
	return func(o *options) { o.schemes = append(o.schemes, adders...) }
}

// Clusters changes every Cluster before it is created. Default: a Cluster whose remote is probed every
// second, for a second, and counts as lost after three failures.
func Clusters(changes ...func(*hubv1.Cluster)) Option {
	return func(o *options) { o.clusters = append(o.clusters, changes...) }
}

// Rules are the permissions of the hub in every remote. Default: the permissions that the modules declare, which "hub
// rbac" prints for their configuration:
//
//	hubtest.Rules(rbac.RemoteRules(podcount.Module)...)
//
// A remote that refuses a request of a module for which its Rules have no permission fails the test.
func Rules(rules ...rbacv1.PolicyRule) Option {
	return func(o *options) { o.rules = append(o.rules, rules...) }
}

// DeclaredHubRights runs the hub as a ServiceAccount that has exactly the roles which "hub rbac --in hub" prints for its
// modules. A request of a module for which its HubRules have no permission is refused and fails the test. Namespaces in
// HubNamespaces are created. Hub.Cache reads with these permissions, too. Default: all permissions.
func DeclaredHubRights() Option {
	return func(o *options) { o.declaredHubRights = true }
}

// ModuleConfig configures a module with the YAML that an operator writes for it below its name in the file of
// "hub run --config": config, and overrides for remotes whose Cluster has certain labels.
//
//	hubtest.ModuleConfig("quota", "config: {pods: 50}")
//
// An invalid text fails the test. Default: the defaults of the modules.
func ModuleConfig(module, text string) Option {
	return func(o *options) {
		one := moduleconfig.Config{}
		err := yaml.UnmarshalStrict([]byte(text), &one)
		if err == nil && one.Name != "" {
			err = errors.New("name: leave it out")
		}
		if err != nil {
			o.problems = append(o.problems, fmt.Errorf("the configuration of module %s: %w", module, err))
		}
		one.Name = module
		o.configs = append(o.configs, one)
	}
}

// HubOptions changes how the hub runs, for instance its limits. It is called before each start of the hub. Default: a
// single hub, with all permissions on its API server unless DeclaredHubRights restricts it, and with remotes on
// loopback.
func HubOptions(change func(*app.Options)) Option {
	return func(o *options) { o.hub = append(o.hub, change) }
}

// Patience bounds each wait; a longer wait ends the test. Default: two minutes.
func Patience(d time.Duration) Option {
	return func(o *options) { o.patience = d }
}

// Verbose shows each line of the hub's log at once. Default: the last 50 lines of a failed test.
func Verbose() Option {
	return func(o *options) { o.verbose = true }
}
