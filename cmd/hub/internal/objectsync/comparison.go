// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

// Action is what a rule would do with one object of the target.
type Action string

// Replace is for the copy of an original that was made again. A Blocked name belongs to an object that the rule has not
// copied. The target does not accept a Rejected copy, or a patch does not fit.
const (
	Create   Action = "Create"
	Adopt    Action = "Adopt"
	Update   Action = "Update"
	Replace  Action = "Replace"
	Delete   Action = "Delete"
	Blocked  Action = "Blocked"
	Rejected Action = "Rejected"
)

// Change is a difference between a target and what a rule would make of it.
type Change struct {
	Cluster string
	Action  Action
	// Object, Fields and Reason are fit to be printed.
	Object string
	// Fields are paths that an Update changes, or that the target refuses, without values.
	Fields []string
	// Reason of a Rejected copy: PatchFailed, or the API server's.
	Reason string
	// Err is why the differences are unknown. Then only Cluster is set.
	Err error
}

// comparison is of one remote.
type comparison struct {
	syncer.Preview
	rule           rules.Rule
	cluster        *hubv1.Cluster
	at             rules.Place
	source, target *side
	patcher        *rules.Patcher
	found          []Change
}

func (c *comparison) run(ctx context.Context) (err error) {
	c.Client, c.Kind, c.Identity, c.Exclude = c.target.all, c.rule.GVK(), c.rule.Identity(c.at), c.rule.Exclude
	c.Translator = c.rule.Translator(c.at)
	if c.patcher, err = c.rule.Patcher(rules.Cluster{Name: c.cluster.Name, Labels: c.cluster.Labels}); err != nil {
		return err
	}
	c.Mutate = func(ctx context.Context, _, copied *unstructured.Unstructured) error {
		return c.patcher.Apply(ctx, copied)
	}
	originals, err := c.originals(ctx)
	if err != nil {
		return err
	}
	copies, err := c.target.list(ctx, c.Kind, client.InNamespace(c.Identity.TargetNamespace), client.MatchingLabels{c.Identity.Keys().ManagedBy: c.Identity.Tenant})
	if err != nil {
		return err
	}
	places := map[types.NamespacedName][]types.NamespacedName{}
	for i := range originals {
		up := client.ObjectKeyFromObject(&originals[i])
		places[up] = c.Translator.ToDownstream(up)
	}
	for i := range copies {
		up, ours := c.Translator.ToUpstream(&copies[i])
		if _, ok := places[up]; ok && ours {
			places[up] = []types.NamespacedName{client.ObjectKeyFromObject(&copies[i])}
		} else if ours && c.rule.Mode != hubv1.SyncCreate {
			c.add(Delete, &copies[i], "")
		}
	}
	for i := range originals {
		up := &originals[i]
		// A running hub may write meanwhile.
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return c.original(ctx, up, places[client.ObjectKeyFromObject(up)]) })
		if err != nil {
			return c.target.explain(c.Kind, err)
		}
	}
	return nil
}

func (c *comparison) originals(ctx context.Context) ([]unstructured.Unstructured, error) {
	labelsOf := map[string]map[string]string{}
	if c.rule.NamespaceLabels() != nil {
		all, err := c.source.list(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"))
		if err != nil {
			return nil, err
		}
		for _, one := range all {
			labelsOf[one.GetName()] = one.GetLabels()
		}
	}
	selector := c.rule.Selector(c.cluster.Name, func(name string) (map[string]string, bool) {
		found, ok := labelsOf[name]
		return found, ok
	})
	namespaces := c.rule.SourceNamespaces(c.cluster.Name)
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var options []client.ListOption
	if s := c.rule.ObjectLabels(); s != nil {
		options = append(options, client.MatchingLabelsSelector{Selector: s})
	}
	var all []unstructured.Unstructured
	for _, namespace := range namespaces {
		found, err := c.source.list(ctx, c.Kind, append(options, client.InNamespace(namespace))...)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return slices.DeleteFunc(all, func(o unstructured.Unstructured) bool {
		return !selector.Selects(&o) || o.GetDeletionTimestamp() != nil
	}), nil
}

func (c *comparison) add(a Action, obj metav1.Object, reason string, fields ...string) {
	name := c.target.Token(strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/"))
	c.found = append(c.found, Change{Cluster: c.cluster.Name, Object: name, Action: a, Reason: reason, Fields: fields})
}

func (c *comparison) original(ctx context.Context, up *unstructured.Unstructured, names []types.NamespacedName) error {
	for _, name := range names {
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(c.Kind)
		err := c.target.all.Get(ctx, name, found)
		if apierrors.IsNotFound(err) {
			found.SetNamespace(name.Namespace)
			found.SetName(name.Name)
			return c.dryRun(ctx, Create, up, found)
		}
		if err != nil {
			return fmt.Errorf("read %s %s: %w", c.Kind.Kind, name, err)
		}
		of, ours := c.Translator.ToUpstream(found)
		isCopy := ours && of == client.ObjectKeyFromObject(up)
		switch {
		case isCopy && c.rule.Mode == hubv1.SyncCreate:
			return nil
		case isCopy && found.GetAnnotations()[c.Identity.Keys().ObjectUID] != string(up.GetUID()):
			c.add(Replace, found, "")
			return nil
		case isCopy:
			return c.dryRun(ctx, Update, up, found)
		case ours && translate.IsCopy(found): // The name belongs to the copy of another original.
		case c.rule.Takes(c.at, up, found), c.rule.Adopts(ctx, c.patcher, c.Translator.Metadata(up, name), found):
			return c.dryRun(ctx, Adopt, up, found)
		default:
			c.add(Blocked, found, "")
			return nil
		}
	}
	c.add(Blocked, up, "")
	return nil
}

// dryRun returns a conflict as it is.
func (c *comparison) dryRun(ctx context.Context, action Action, up, down *unstructured.Unstructured) error {
	name := client.ObjectKeyFromObject(down)
	if action == Create {
		down = nil
	}
	answer, err := c.DryRun(ctx, up, down, name)
	named := &metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}
	switch {
	case errors.Is(err, rules.ErrPatch):
		c.add(Rejected, named, rules.ReasonPatchFailed)
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err):
		c.add(Rejected, named, c.target.Token(string(apierrors.ReasonForError(err))), c.causes(err)...)
	case err != nil && (!apierrors.IsNotFound(err) || !c.rule.CreatesNamespace()):
		return err
	case action != Update:
		c.add(action, named, "")
	default:
		if fields := c.changed(down, answer); len(fields) > 0 {
			c.add(action, named, "", fields...)
		}
	}
	return nil
}

func (c *comparison) causes(err error) (fields []string) {
	var refused *apierrors.StatusError
	if errors.As(err, &refused) && refused.ErrStatus.Details != nil {
		for _, cause := range refused.ErrStatus.Details.Causes {
			fields = append(fields, c.target.Token(cause.Field))
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

const metadata = "metadata"

// changed leaves out fields that each write changes.
func (c *comparison) changed(before, after *unstructured.Unstructured) []string {
	for _, one := range []*unstructured.Unstructured{before, after} {
		for _, path := range [][]string{
			{"status"},
			{metadata, "managedFields"},
			{metadata, "resourceVersion"},
			{metadata, "generation"},
			{metadata, "annotations", c.Identity.Keys().Fields},
		} {
			unstructured.RemoveNestedField(one.Object, path...)
		}
	}
	paths := differences("", before.Object, after.Object)
	for i := range paths {
		paths[i] = c.target.Token(strings.TrimPrefix(paths[i], "."))
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func differences(path string, a, b any) (all []string) {
	old, isMap := a.(map[string]any)
	changed, both := b.(map[string]any)
	switch {
	case equality.Semantic.DeepEqual(a, b):
		return nil
	case !isMap || !both:
		return []string{path}
	}
	for key := range changed {
		all = append(all, differences(path+"."+key, old[key], changed[key])...)
	}
	for key := range old {
		all = append(all, differences(path+"."+key, old[key], changed[key])...)
	}
	return all
}
