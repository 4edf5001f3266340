// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/enroll"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// Fleet is a hub with its remotes and rules.
type Fleet struct {
	Hub       *access.Cluster
	Namespace string
	HubID     string
	Config    Config
	Policy    kubeconfig.Policy
	UserAgent string
	// Runs reports whether a Cluster selects the module. Default: all do.
	Runs func(*hubv1.Cluster) bool
	// Admin reaches the remote of the only Cluster of a command. Default: nil, the hub's credentials do.
	Admin *access.Cluster
}

const perRequest = 15 * time.Second

func (f *Fleet) clusters(ctx context.Context, names []string) ([]hubv1.Cluster, error) {
	if len(names) == 0 {
		var list hubv1.ClusterList
		if err := f.Hub.List(ctx, &list); err != nil {
			return nil, f.Hub.Explain(fmt.Errorf("list Clusters: %w", err))
		}
		return list.Items, nil
	}
	all := make([]hubv1.Cluster, len(names))
	for i, name := range names {
		if err := f.Hub.Get(ctx, client.ObjectKey{Name: name}, &all[i]); err != nil {
			return nil, f.Hub.Explain(err)
		}
	}
	return all, nil
}

func (f *Fleet) at(cluster string) rules.Place { return rules.Place{HubID: f.HubID, Cluster: cluster} }

func (f *Fleet) runs(c *hubv1.Cluster) bool { return f.Runs == nil || f.Runs(c) }

func (f *Fleet) with(ctx context.Context, c *hubv1.Cluster, do func(*side) error) error {
	if f.Admin != nil {
		id, err := f.Admin.ID(ctx)
		if err != nil {
			return err
		}
		if known := c.Annotations[hubv1.AnnotationID]; known != "" && known != id {
			return fmt.Errorf("%s is cluster %s, and Cluster %s represents %s: choose another context", f.Admin.What, id, c.Name, known)
		}
		remote, err := sideOf(f.Admin)
		if err != nil {
			return err
		}
		return do(remote)
	}
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: f.Namespace, Name: c.Spec.KubeconfigSecretRef.Name}
	if err := f.Hub.Get(ctx, key, &secret); err != nil {
		return f.Hub.Explain(fmt.Errorf("read Secret %s: %w", key, err))
	}
	connection, err := kubeconfig.Parse(secret.Data, enroll.OptionsOf(c.Spec), f.Policy)
	if err != nil {
		return fmt.Errorf("use Secret %s: %w", key, err)
	}
	transport, err := kubeconfig.NewTransport(connection, f.Policy)
	if err != nil {
		return fmt.Errorf("use Secret %s: %w", key, err)
	}
	defer transport.Close()
	config := kubeconfig.RESTConfig(connection.Endpoint, transport)
	config.UserAgent, config.Timeout = f.UserAgent, perRequest
	reached, err := access.NewRemote("remote "+c.Name, config, connection.Credential)
	if err != nil {
		return err
	}
	remote, err := sideOf(reached)
	if err != nil {
		return err
	}
	return do(remote)
}

type side struct {
	*access.Cluster
	all client.Client
}

func sideOf(c *access.Cluster) (*side, error) {
	all, err := client.New(c.Config, client.Options{HTTPClient: c.HTTP})
	if err != nil {
		return nil, c.Explain(fmt.Errorf("build a client: %w", err))
	}
	return &side{Cluster: c, all: all}, nil
}

func (s *side) explain(kind schema.GroupVersionKind, err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%s does not serve %s of %s", s.What, kind.Kind, kind.GroupVersion())
	}
	return s.Explain(err)
}

const page = 500

func (s *side) list(ctx context.Context, kind schema.GroupVersionKind, o ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	var all []metav1.PartialObjectMetadata
	next := ""
	for {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		options := append([]client.ListOption{client.Limit(page), client.Continue(next)}, o...)
		if err := s.all.List(ctx, list, options...); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
		}
		all = append(all, list.Items...)
		if next = list.Continue; next == "" {
			return all, nil
		}
	}
}

func (s *side) get(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (*metav1.PartialObjectMetadata, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind)
	err := s.all.Get(ctx, key, found)
	return found, err
}

func (s *side) name(obj metav1.Object) string {
	if obj.GetNamespace() == "" {
		return s.Token(obj.GetName())
	}
	return s.Token(obj.GetNamespace() + "/" + obj.GetName())
}

// Module is the name of the module.
const Module = "sync"

// ErrNoRule means that the configuration has no rule of a name.
var ErrNoRule = errors.New("no such rule")

// Config has the rules of a hub. The zero Config has none.
type Config struct{ book rules.Book }

// ConfigOf returns the rules in the configuration of the modules of a hub.
func ConfigOf(all []moduleconfig.Config) (Config, error) {
	i := slices.IndexFunc(all, func(m moduleconfig.Config) bool { return m.Name == Module })
	if i < 0 {
		return Config{}, nil
	}
	var base rules.Config
	if len(all[i].Config) > 0 {
		if err := json.Unmarshal(all[i].Config, &base); err != nil {
			return Config{}, fmt.Errorf("read the configuration of module %s: %w", Module, err)
		}
	}
	book, err := rules.NewBook(base, all[i].Overrides)
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration of module %s: %w", Module, err)
	}
	return Config{book: book}, nil
}

// For returns the rules for a Cluster with some labels.
func (c Config) For(of map[string]string) []rules.Rule { return c.book.Of(of) }

// Find returns a rule for a Cluster with some labels. The error wraps ErrNoRule.
func (c Config) Find(name string, of map[string]string) (rules.Rule, error) {
	var names []string
	for _, r := range c.For(of) {
		if r.Name == name {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return rules.Rule{}, fmt.Errorf("%s: %w; there are %s", name, ErrNoRule, orNone(names))
}

// Names returns all rules, with those of overrides.
func (c Config) Names() []string {
	var names []string
	for _, r := range c.book.All() {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Has reports whether any Cluster has the rule.
func (c Config) Has(name string) bool { return slices.Contains(c.Names(), name) }

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Scope says which rules and Clusters to look at. The zero Scope is all of them.
type Scope struct{ Rules, Clusters []string }

const parallel = 8

// inEach calls do for each rule and each Cluster that selects the module, and returns results in the order of the
// Clusters. It fails if the configuration lacks a rule.
func inEach[T any](ctx context.Context, f *Fleet, s Scope, do func(rules.Rule, *hubv1.Cluster) []T) ([]T, error) {
	for _, name := range s.Rules {
		if !f.Config.Has(name) {
			return nil, fmt.Errorf("%s: %w; there are %s", name, ErrNoRule, orNone(f.Config.Names()))
		}
	}
	clusters, err := f.clusters(ctx, s.Clusters)
	if err != nil {
		return nil, err
	}
	clusters = slices.DeleteFunc(clusters, func(c hubv1.Cluster) bool { return !f.runs(&c) })
	results := make([][]T, len(clusters))
	var asked errgroup.Group
	asked.SetLimit(parallel)
	for i := range clusters {
		asked.Go(func() error {
			for _, r := range f.Config.For(clusters[i].Labels) {
				if len(s.Rules) == 0 || slices.Contains(s.Rules, r.Name) {
					results[i] = append(results[i], do(r, &clusters[i])...)
				}
			}
			return nil
		})
	}
	_ = asked.Wait() // The results have the errors.
	return slices.Concat(results...), ctx.Err()
}
