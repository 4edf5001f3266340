// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/side"
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

// comparison is of one remote: the reconciles of the rule there, without their writes.
type comparison struct {
	rule           rules.Rule
	cluster        *hubv1.Cluster
	at             rules.Place
	source, target *dry
	translator     syncer.Translator[*unstructured.Unstructured]
	last           syncer.Outcome
	found          []Change
}

func (c *comparison) run(ctx context.Context) error {
	selector, originals, err := c.originals(ctx)
	if err != nil {
		return err
	}
	id := c.rule.Identity(c.at)
	copies, err := c.target.list(ctx, c.rule.GVK(), client.InNamespace(id.TargetNamespace), client.MatchingLabels{id.Keys().ManagedBy: id.Tenant})
	if err != nil {
		return err
	}
	opened, of, err := c.open(ctx, selector, copies)
	if err != nil {
		return err
	}
	keys := of.Difference(sets.New(originals...)).UnsortedList()
	slices.SortFunc(keys, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range append(keys, originals...) {
		found := len(c.found)
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { // A running hub may write meanwhile.
			err := c.reconcile(ctx, opened, key)
			if apierrors.IsConflict(err) { // What the Syncer has tried, it takes for done.
				c.found = c.found[:found]
				opened, _, _ = c.open(ctx, selector, copies) // It did not fail before.
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// open returns a Syncer that knows the copies, and of which originals they are. It leaves out the status, which is written to
// originals. A rule that only observes shows what it would write, too.
func (c *comparison) open(
	ctx context.Context, selector rules.Selector, copies []unstructured.Unstructured,
) (opened *syncer.Opened, of sets.Set[types.NamespacedName], err error) {
	pair, err := syncer.NewPair(syncer.PairOptions{
		Name: "sync-" + c.rule.Name, Manager: unstarted{client: c.target}, Identity: c.rule.Identity(c.at),
		Upstream: side.Live(c.source), Downstream: side.Live(c.target), Report: func(o syncer.Outcome) { c.last = o },
	})
	if err != nil {
		return nil, nil, err
	}
	one, how := c.rule.Copies(c.at, func() map[string]string { return c.cluster.Labels })
	one.Status, how.Observe, how.Select = false, false, func(up *unstructured.Unstructured) bool { return selector.Selects(up) }
	c.translator = c.rule.Translator(c.at)
	if opened, err = syncer.Open(pair, one, c.translator, how); err != nil {
		return nil, nil, err
	}
	of = sets.New[types.NamespacedName]()
	for i := range copies {
		of.Insert(opened.Copies.Observe(ctx, &copies[i], false)...)
	}
	return opened, of, nil
}

func (c *comparison) originals(ctx context.Context) (selector rules.Selector, keys []types.NamespacedName, err error) {
	labelsOf := map[string]map[string]string{}
	if c.rule.NamespaceLabels() != nil {
		all, err := c.source.list(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"))
		if err != nil {
			return selector, nil, err
		}
		for _, one := range all {
			labelsOf[one.GetName()] = one.GetLabels()
		}
	}
	selector = c.rule.Selector(c.cluster.Name, func(name string) (map[string]string, bool) {
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
	for _, namespace := range namespaces {
		found, err := c.source.list(ctx, c.rule.GVK(), append(options, client.InNamespace(namespace))...)
		if err != nil {
			return selector, nil, err
		}
		for i := range found {
			if selector.Selects(&found[i]) && found[i].GetDeletionTimestamp() == nil {
				keys = append(keys, client.ObjectKeyFromObject(&found[i]))
			}
		}
	}
	return selector, keys, nil
}

func (c *comparison) add(a Action, name types.NamespacedName, reason string, fields ...string) {
	text := c.target.Token(strings.TrimPrefix(name.String(), "/"))
	c.found = append(c.found, Change{Cluster: c.cluster.Name, Object: text, Action: a, Reason: reason, Fields: fields})
}

// reconcile returns a conflict as it is.
func (c *comparison) reconcile(ctx context.Context, opened *syncer.Opened, key types.NamespacedName) error {
	c.target.sent, c.last = nil, syncer.Outcome{}
	_, err := opened.Reconcile(ctx, reconcile.Request{NamespacedName: key})
	for _, w := range c.target.sent {
		if err := c.describe(w); err != nil {
			return err
		}
	}
	switch {
	case err != nil && !slices.ContainsFunc(c.target.sent, func(w write) bool { return w.err != nil }): // describe has accepted those.
		return err
	case c.last.Reason == syncer.ReasonNameConflict:
		c.add(Blocked, c.last.Target, "")
	case c.last.Reason == rules.ReasonPatchFailed:
		c.add(Rejected, c.last.Target, rules.ReasonPatchFailed)
	}
	return nil
}

func (c *comparison) describe(w write) error {
	uid, isOurs := c.rule.Identity(c.at).Keys().ObjectUID, false
	if w.before != nil {
		_, isOurs = c.translator.ToUpstream(w.before)
	}
	switch {
	case w.after == nil && isOurs && c.last.Selected:
		c.add(Replace, w.name, "")
	case w.after == nil:
		c.add(Delete, w.name, "")
	case c.last.Reason == syncer.ReasonRejected, c.last.Reason == syncer.ReasonUndeclared:
		c.add(Rejected, w.name, c.target.Token(string(apierrors.ReasonForError(w.err))), c.causes(w.err)...)
	case w.err != nil && (w.before != nil || !apierrors.IsNotFound(w.err) || !c.rule.CreatesNamespace()):
		return w.err
	case w.before == nil:
		c.add(Create, w.name, "")
	case !isOurs:
		c.add(Adopt, w.name, "")
	case w.before.GetAnnotations()[uid] != w.after.GetAnnotations()[uid]:
		c.add(Replace, w.name, "")
	default:
		if fields := c.changed(w.before, w.after); len(fields) > 0 {
			c.add(Update, w.name, "", fields...)
		}
	}
	return nil
}

func (c *comparison) causes(err error) (fields []string) {
	if refused, ok := errors.AsType[*apierrors.StatusError](err); ok && refused.ErrStatus.Details != nil {
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
			{metadata, "annotations", c.rule.Identity(c.at).Keys().Fields},
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
	for key := range sets.KeySet(old).Union(sets.KeySet(changed)) {
		all = append(all, differences(path+"."+key, old[key], changed[key])...)
	}
	return all
}
