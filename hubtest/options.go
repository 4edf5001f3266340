// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
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

// An Option configures New. Options of one kind add up; the last Patience wins.
type Option func(*options)

type options struct {
	remotes             []string
	modules             []registry.Module
	configs             []moduleconfig.Config
	problems            []error
	hubCRDs, remoteCRDs []fs.FS
	schemes             []func(*runtime.Scheme) error
	clusters            []func(*hubv1.Cluster)
	hub                 []func(*app.Options)
	rules               []rbacv1.PolicyRule
	patience            time.Duration
	leakPatience        time.Duration // for goroutines to end after their hub
	declaredHubRights   bool
	tunnels             bool
	verbose             bool
}

// defaultPatience is long, because API servers share the machine with other tests. Only failed tests wait so long.
const defaultPatience = 2 * time.Minute

func newOptions(opts []Option) options {
	o := options{leakPatience: time.Minute, tunnels: os.Getenv("HUBTEST_VIA") == string(hubv1.ViaTunnel)} // make test-tunnel
	for _, opt := range opts {
		opt(&o)
	}
	o.patience = cmp.Or(o.patience, defaultPatience)
	return o
}

func (o options) roles() []pool.Role {
	return append([]pool.Role{pool.Hub}, slices.Repeat([]pool.Role{pool.Remote}, len(o.remotes))...)
}

// Remotes requests remotes with these names, also of their Clusters. Default: none.
func Remotes(names ...string) Option {
	return func(o *options) { o.remotes = append(o.remotes, names...) }
}

// Modules of the hub. Default: none.
func Modules(modules ...registry.Module) Option {
	return func(o *options) { o.modules = append(o.modules, modules...) }
}

// NATS connects the hub to a NATS server. Default: none.
func NATS(url string) Option {
	return HubOptions(func(o *app.Options) { o.NATS.URL = url })
}

// HubCRDs installs the definitions in all YAML files of these trees (embed.FS or os.DirFS) in the hub's API server,
// before it starts. Default: only the hub's own.
func HubCRDs(trees ...fs.FS) Option {
	return func(o *options) { o.hubCRDs = append(o.hubCRDs, trees...) }
}

// RemoteCRDs is HubCRDs for every remote, before it is registered. Default: none.
func RemoteCRDs(trees ...fs.FS) Option {
	return func(o *options) { o.remoteCRDs = append(o.remoteCRDs, trees...) }
}

// Scheme adds kinds for the test's own clients, which know those of Kubernetes, Cluster and CustomResourceDefinition.
// The hub gets its kinds from its modules, with Hub: fx.Invoke(widgetv1.AddToScheme). Default: none.
func Scheme(adders ...func(*runtime.Scheme) error) Option {
	return func(o *options) { o.schemes = append(o.schemes, adders...) }
}

// Clusters changes every Cluster before it is created. Default: a probe every second, for a second, and lost after
// three failures.
func Clusters(changes ...func(*hubv1.Cluster)) Option {
	return func(o *options) { o.clusters = append(o.clusters, changes...) }
}

// Rules are the hub's permissions in every remote. Default: what the modules declare, as "hub rbac" prints:
//
//	hubtest.Rules(rbac.RemoteRules(podcount.Module)...)
func Rules(rules ...rbacv1.PolicyRule) Option {
	return func(o *options) { o.rules = append(o.rules, rules...) }
}

// DeclaredHubRights runs the hub as a ServiceAccount with exactly the roles of "hub rbac --in hub"; Hub.Cache too.
// HubNamespaces are created. Default: all permissions.
func DeclaredHubRights() Option {
	return func(o *options) { o.declaredHubRights = true }
}

// ModuleConfig is the YAML below the module's name in the file of "hub run --config": config, and overrides by
// labels.
//
//	hubtest.ModuleConfig("quota", "config: {pods: 50}")
//
// An invalid text fails the test. Default: the modules' defaults.
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

// HubOptions changes how the hub runs, before each start. Default: a single hub, all permissions on its API server
// unless DeclaredHubRights, and remotes on loopback.
func HubOptions(change func(*app.Options)) Option {
	return func(o *options) { o.hub = append(o.hub, change) }
}

// Requests wraps those of the hub to its own API server. registry.WithMiddleware is for those to remotes.
func Requests(wrap func(http.RoundTripper) http.RoundTripper) Option {
	return HubOptions(func(o *app.Options) { o.Config.Wrap(wrap) })
}

// Duplicates allows several Clusters that lead to one remote.
func Duplicates() Option {
	return HubOptions(func(o *app.Options) { o.Registry.AllowDuplicates = true })
}

// Patience bounds each wait, and ends the test. Default: two minutes.
func Patience(d time.Duration) Option {
	return func(o *options) { o.patience = d }
}

// Verbose shows the hub's log at once. Default: the last 50 lines of a failed test.
func Verbose() Option {
	return func(o *options) { o.verbose = true }
}
