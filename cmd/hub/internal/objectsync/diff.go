// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
)

// Module is the name of the module.
const Module = "sync"

// Diff is what to look at.
type Diff struct {
	Hub   *access.Cluster
	HubID string
	// Reach connects to the remote of a Cluster, until the function that it returns is called.
	Reach func(context.Context, *hubv1.Cluster) (remote *access.Cluster, end func(), err error)
	Rule  rules.Rule
	// Cluster limits it to one. Default: all that the rule selects.
	Cluster string
}

const parallel, page = 8, 500

// Run returns what the rule would write now. A remote without a response has an error in a Change. Limits of objects and deletes are not
// considered.
func (d *Diff) Run(ctx context.Context) ([]Change, error) {
	var list hubv1.ClusterList
	if err := d.Hub.List(ctx, &list); err != nil {
		return nil, d.Hub.Explain(fmt.Errorf("list Clusters: %w", err))
	}
	clusters := slices.DeleteFunc(list.Items, func(c hubv1.Cluster) bool {
		runs := c.Spec.Modules == nil || slices.Contains(c.Spec.Modules, Module)
		return !runs || !d.Rule.SelectsCluster(c.Labels) || d.Cluster != "" && c.Name != d.Cluster
	})
	if d.Cluster != "" && len(clusters) == 0 {
		return nil, fmt.Errorf("rule %s selects no Cluster %s", d.Rule.Name, d.Cluster)
	}
	results := make([][]Change, len(clusters))
	var asked errgroup.Group
	asked.SetLimit(parallel)
	for i := range clusters {
		asked.Go(func() error {
			one := &comparison{rule: d.Rule, cluster: &clusters[i], at: rules.Place{HubID: d.HubID, Cluster: clusters[i].Name}}
			if err := d.compare(ctx, one); err != nil {
				one.found = append(one.found, Change{Cluster: clusters[i].Name, Err: err})
			}
			results[i] = one.found
			return nil
		})
	}
	_ = asked.Wait() // The results have the errors.
	return slices.Concat(results...), ctx.Err()
}

func (d *Diff) compare(ctx context.Context, one *comparison) error {
	if err := d.Rule.CheckNamespaces(one.cluster.Name); err != nil {
		return err
	}
	remote, end, err := d.Reach(ctx, one.cluster)
	if err != nil {
		return err
	}
	defer end()
	if one.source, err = dryOf(d.Hub); err != nil {
		return err
	}
	if one.target, err = dryOf(remote); err != nil {
		return err
	}
	if d.Rule.From == hubv1.SyncFromRemote {
		one.source, one.target = one.target, one.source
	}
	return one.run(ctx)
}

// unstarted is a manager that only opens a Syncer.
type unstarted struct {
	ctrl.Manager
	client client.Client
}

func (u unstarted) GetScheme() *runtime.Scheme { return u.client.Scheme() }
func (unstarted) GetLogger() logr.Logger       { return logr.Discard() }

// dry is a client of all kinds whose writes change nothing: it notes those of copies, with the answer to a dry run.
type dry struct {
	client.Client
	*access.Cluster
	sent []write
}

// write is one of a copy. A new one has no before, and a delete no after.
type write struct {
	name          types.NamespacedName
	before, after *unstructured.Unstructured
	err           error
}

func dryOf(c *access.Cluster) (*dry, error) {
	all, err := client.New(c.Config, client.Options{HTTPClient: c.HTTP, DryRun: new(true)})
	return &dry{Client: all, Cluster: c}, c.Explain(err)
}

func (d *dry) Get(ctx context.Context, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
	return d.Explain(d.Client.Get(ctx, key, obj, o...))
}

func (d *dry) Patch(ctx context.Context, obj client.Object, patch client.Patch, o ...client.PatchOption) error {
	kind, w := obj.GetObjectKind().GroupVersionKind(), write{name: client.ObjectKeyFromObject(obj), after: &unstructured.Unstructured{}}
	w.after.SetGroupVersionKind(kind)
	w.after.SetNamespace(w.name.Namespace)
	w.after.SetName(w.name.Name)
	w.before = w.after.DeepCopy()
	if err := d.Get(ctx, w.name, w.before); apierrors.IsNotFound(err) {
		w.before = nil
	} else if err != nil {
		return err
	}
	w.err = d.Failed(fmt.Sprintf("dry run of the write of %s %s", kind.Kind, w.name), d.Client.Patch(ctx, w.after, patch, o...))
	d.sent = append(d.sent, w)
	return w.err
}

func (d *dry) Delete(_ context.Context, obj client.Object, _ ...client.DeleteOption) error {
	before, _ := obj.(*unstructured.Unstructured)
	d.sent = append(d.sent, write{name: client.ObjectKeyFromObject(obj), before: before})
	return nil
}

// Create is for events.
func (*dry) Create(context.Context, client.Object, ...client.CreateOption) error { return nil }

func (d *dry) list(ctx context.Context, kind schema.GroupVersionKind, o ...client.ListOption) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for list := (&unstructured.UnstructuredList{}); ; {
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := d.List(ctx, list, append(slices.Clone(o), client.Limit(page), client.Continue(list.GetContinue()))...)
		if meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("%s does not serve %s of %s", d.What, kind.Kind, kind.GroupVersion())
		}
		if err != nil {
			return nil, d.Failed("list "+kind.Kind, err)
		}
		all = append(all, list.Items...)
		if list.GetContinue() == "" {
			return all, nil
		}
	}
}
