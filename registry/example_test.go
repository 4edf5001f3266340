// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/rbac"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A hub reconciler reads from a remote. If the remote cannot be used, WithClient returns an error, and Source calls the
// reconciler again when the remote is ready.
func ExampleRegistry_WithClient() {
	countNodes := func(ctx context.Context, r *registry.Registry, name registry.ClusterName) (int, error) {
		var nodes corev1.NodeList
		err := r.WithClient(ctx, name, func(ctx context.Context, remote client.Client) error {
			return remote.List(ctx, &nodes)
		})
		return len(nodes.Items), err
	}
	_ = countNodes
}

// The permissions of a module follow from its configuration: it reads Secrets in the namespace of the hub that the operator
// names, and writes them in remotes.
func ExampleRulesOf() {
	type config struct {
		Namespace string `json:"namespace"`
	}
	secrets := func(verbs ...string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: verbs}}
	}
	copies := registry.NewModule("copies", registry.ModuleOptions{
		Config: registry.ConfigOf(func() config { return config{Namespace: "platform"} }),
		RulesOf: registry.RulesOf(func(c config) registry.ConfigRules {
			return registry.ConfigRules{
				Remote: secrets("create", "update"),
				Hub:    []rbac.NamespacedRules{{Namespace: c.Namespace, Rules: secrets("get", "list", "watch")}},
			}
		}),
	})
	fmt.Println(rbac.HubRules(copies)[0].Namespace)
	// Output: platform
}

// Source calls a controller on the hub for every event of a remote.
func ExampleSource() {
	setUp := func(mgr ctrl.Manager, r *registry.Registry, reconciler reconcile.Reconciler) error {
		return registry.ControllerManagedBy(mgr).Named("remotes").
			WatchesRawSource(registry.Source(r, func(e registry.Event) []ctrl.Request {
				return []ctrl.Request{{NamespacedName: client.ObjectKey{Name: string(e.Name)}}}
			})).
			Complete(reconciler)
	}
	_ = setUp
}

// Each reads from every remote in one call. If some remotes are not ready or take too long, the results of the others
// are still complete.
func ExampleEach() {
	versions := func(ctx context.Context, r *registry.Registry) (found []string, missing int) {
		results := registry.Each(ctx, r, registry.EachOptions{},
			func(ctx context.Context, _ registry.ClusterName, remote client.Client) (string, error) {
				var one corev1.ConfigMap
				err := remote.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "version"}, &one)
				return one.Data["version"], err
			})
		for _, one := range results {
			if one.Err != nil {
				missing++
				continue
			}
			found = append(found, one.Value)
		}
		return found, missing
	}
	_ = versions
}

// pool represents an expensive resource, such as the connections to a database.
type pool struct{}

func newPool() *pool { return &pool{} }

func (*pool) add(registry.ClusterName) {}

// A value is built once, in the hub's App, and the apps of all remotes get it.
func ExampleShare() {
	store := registry.NewModule("store", registry.ModuleOptions{
		Hub:     fx.Options(fx.Provide(newPool), registry.Share[*pool]()),
		HubRuns: registry.WithRemotes, // the apps of every replica use it
		Remote:  fx.Invoke(func(p registry.Remote, shared *pool) { shared.add(p.Name) }),
	})
	_ = store
}

// A module that plans once, in one replica, and acts in the apps. The controller of the hub part writes the version for each
// Cluster into a ConfigMap of the hub, and the remote part follows the ConfigMap of its Cluster, in whichever replica its app runs.
func ExampleHubRuns() {
	plan := func(p registry.HubPart) error { // objects of the hub in, objects of the hub out
		return registry.ControllerManagedBy(p.Manager).Named("rollout").For(&corev1.ConfigMap{}).Complete(
			reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }))
	}
	act := func(p registry.Remote) error {
		_, err := p.HubObjects.Watch(hubobjects.Selection{
			Object: &corev1.ConfigMap{}, Route: hubobjects.ByLabel("example.com/cluster"),
		}, string(p.Name))
		return err
	}
	rollout := registry.NewModule("rollout", registry.ModuleOptions{
		Hub:     fx.Invoke(plan),
		HubRuns: registry.Once,
		Remote:  fx.Invoke(act),
	})
	_ = rollout
}

// Remotes on a slow connection get fewer requests and a longer timeout. The middleware is an option of a hub, or of the
// hub part of a module.
func ExampleWithMiddleware() {
	slowly := registry.WithMiddleware(registry.Middleware{
		Name:   "slowly",
		Select: state.MatchLabels(labels.SelectorFromSet(labels.Set{"link": "satellite"})),
		Client: func(c state.ClientLimits) state.ClientLimits {
			c.QPS, c.Burst, c.Timeout = 5, 10, time.Minute
			return c
		},
	})
	_ = slowly
}

// A module that needs the certificates among the Secrets with one label keeps no other Secrets in memory.
func ExampleCacheFilter() {
	certificates := registry.NewModule("certificates", registry.ModuleOptions{
		CacheFilters: []registry.CacheFilter{{
			Object: &corev1.Secret{},
			Labels: labels.SelectorFromSet(labels.Set{"example.com/watched": "true"}),
			Fields: fields.OneTermEqualSelector("type", string(corev1.SecretTypeTLS)),
			Transform: func(o client.Object) {
				if secret, ok := o.(*corev1.Secret); ok {
					delete(secret.Data, corev1.TLSPrivateKeyKey)
				}
			},
		}},
		Remote: fx.Invoke(func(p registry.Remote) error {
			return registry.ControllerManagedBy(p.Manager).Named("certificates").For(&corev1.Secret{}).Complete(
				reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
					var secret corev1.Secret // without its private key; p.APIReader reads the whole Secret
					return ctrl.Result{}, client.IgnoreNotFound(p.Client.Get(ctx, r.NamespacedName, &secret))
				}))
		}),
	})
	_ = certificates
}

// The operator's file has {"name": "scanner", "config": {"every": 30}}; other fields in it are refused.
func ExampleConfigOf() {
	type config struct {
		Every int `json:"every"`
	}
	scanner := registry.NewModule("scanner", registry.ModuleOptions{
		Config: registry.ConfigOf(func() config { return config{Every: 60} }),
		Remote: fx.Invoke(func(p registry.Remote, c config) { p.Logger.Info("Scanning", "every", c.Every) }),
	})
	_ = scanner
}

// The deletes of objects that belong to a parent which is being deleted are declared, and are not limited.
func Example_deletesOnPurpose() {
	now := metav1.Now()
	parent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "bundle", DeletionTimestamp: &now}}

	ctx := deletes.OnPurpose(context.Background(), deletes.Terminating(parent))
	// remote.Client.Delete(ctx, ...)

	evidence, declared := deletes.EvidenceOf(ctx)
	fmt.Println(declared, evidence.Kind, evidence.Err)
	// Output: true terminating <nil>
}
