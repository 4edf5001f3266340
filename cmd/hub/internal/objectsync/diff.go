// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

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
	Rule    rules.Rule
	Cluster string
	// Object, Fields and Reason are fit to be printed.
	Object string
	Action Action
	// Fields are paths that an Update changes, or that the target refuses, without values, which may be a Secret's.
	Fields []string
	// Reason of a Rejected copy: PatchFailed, or the API server's.
	Reason string
	// Err is why the differences are unknown. Then only Rule and Cluster are set.
	Err error
}

// Diff returns what the rules would write now, by dry runs in the target. A remote without a response has an error in a
// Change. Limits of objects and deletes are not considered.
func (f *Fleet) Diff(ctx context.Context, s Scope) ([]Change, error) {
	return inEach(ctx, f, s, func(r rules.Rule, c *hubv1.Cluster) []Change {
		d := &diff{rule: r, cluster: c, at: f.at(c.Name)}
		if err := f.sides(ctx, r, c, func(source, target *side) error { return d.compare(ctx, source, target) }); err != nil {
			return append(d.found, Change{Rule: r, Cluster: c.Name, Err: err})
		}
		return d.found
	})
}

type diff struct {
	rule           rules.Rule
	cluster        *hubv1.Cluster
	at             rules.Place
	source, target *side
	translator     translator
	patcher        *rules.Patcher
	preview        syncer.Preview
	found          []Change
}

func (d *diff) compare(ctx context.Context, source, target *side) (err error) {
	d.source, d.target = source, target
	kind := d.rule.GVK()
	if d.translator, err = translatorOf(d.rule, d.at); err != nil {
		return err
	}
	if d.patcher, err = d.rule.Patcher(rules.Cluster{Name: d.cluster.Name, Labels: d.cluster.Labels}); err != nil {
		return err
	}
	d.preview = syncer.Preview{
		Client: target.all, Kind: kind, Identity: d.rule.Identity(d.at), Translator: d.translator, Exclude: d.rule.Exclude,
		Mutate: func(ctx context.Context, _, copied *unstructured.Unstructured) error {
			return d.patcher.Apply(ctx, copied)
		},
	}
	originals, err := originalsOf(ctx, d.rule, d.cluster.Name, source)
	if err != nil {
		return source.explain(kind, err)
	}
	copies, err := copiesOf(ctx, d.rule, d.at, target)
	if err != nil {
		return target.explain(kind, err)
	}
	existing := map[types.NamespacedName]*metav1.PartialObjectMetadata{}
	for i := range copies {
		up, ours := d.translator.ToUpstream(unstructuredOf(d.rule, &copies[i]))
		if _, selected := originals[up]; ours && selected {
			existing[up] = &copies[i]
		} else if ours {
			d.add(Delete, &copies[i])
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(originals), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }) {
		// A running hub may write meanwhile.
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return d.original(ctx, key, existing[key]) })
		if apierrors.IsConflict(err) {
			return target.explain(kind, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *diff) add(a Action, obj metav1.Object, fields ...string) {
	d.found = append(d.found, Change{
		Rule: d.rule, Cluster: d.cluster.Name, Object: d.target.name(obj), Action: a, Fields: fields,
	})
}

// original may have no copy.
func (d *diff) original(ctx context.Context, key types.NamespacedName, copied *metav1.PartialObjectMetadata) error {
	up, err := d.read(ctx, d.source, key)
	if up == nil || err != nil {
		return err // It has gone meanwhile.
	}
	if copied == nil {
		return d.place(ctx, up)
	}
	down, err := d.read(ctx, d.target, client.ObjectKeyFromObject(copied))
	if err != nil {
		return err
	}
	if down == nil {
		return d.place(ctx, up)
	}
	return d.existing(ctx, up, down)
}

func (d *diff) existing(ctx context.Context, up, down *unstructured.Unstructured) error {
	if down.GetAnnotations()[d.preview.Identity.Keys().ObjectUID] != string(up.GetUID()) {
		d.add(Replace, down)
		return nil
	}
	return d.dryRun(ctx, write{action: Update, up: up, down: down, name: client.ObjectKeyFromObject(down)})
}

func (d *diff) place(ctx context.Context, up *unstructured.Unstructured) error {
	key := client.ObjectKeyFromObject(up)
	for _, name := range d.translator.ToDownstream(key) {
		found, err := d.read(ctx, d.target, name)
		if err != nil {
			return err
		}
		if found == nil {
			return d.dryRun(ctx, write{action: Create, up: up, name: name})
		}
		of, ours := d.translator.ToUpstream(found)
		switch {
		case ours && of == key: // It was made meanwhile.
			return d.existing(ctx, up, found)
		case ours && translate.IsCopy(found): // The name belongs to the copy of another original.
		case d.rule.Adopts(ctx, d.patcher, d.at, d.translator.Metadata(up, name), found):
			return d.dryRun(ctx, write{action: Adopt, up: up, down: found, name: name})
		default:
			d.add(Blocked, found)
			return nil
		}
	}
	d.add(Blocked, up)
	return nil
}

type write struct {
	action   Action
	up, down *unstructured.Unstructured
	name     types.NamespacedName
}

// dryRun returns a conflict as it is.
func (d *diff) dryRun(ctx context.Context, w write) error {
	answer, err := d.preview.DryRun(ctx, w.up, w.down, w.name)
	named := &metav1.ObjectMeta{Namespace: w.name.Namespace, Name: w.name.Name}
	switch {
	case errors.Is(err, rules.ErrPatch):
		d.reject(named, rules.ReasonPatchFailed, nil)
		return nil
	case isRefused(err):
		d.reject(named, d.target.Token(string(apierrors.ReasonForError(err))), d.causes(err))
		return nil
	case apierrors.IsConflict(err):
		return err
	case err != nil:
		return d.target.explain(d.rule.GVK(), err)
	case w.action != Update:
		d.add(w.action, named)
		return nil
	}
	fields, err := d.changed(w.down, answer)
	if err != nil || len(fields) == 0 {
		return err
	}
	d.add(w.action, named, fields...)
	return nil
}

func (d *diff) reject(obj metav1.Object, reason string, fields []string) {
	d.add(Rejected, obj, fields...)
	d.found[len(d.found)-1].Reason = reason
}

// isRefused: the error concerns one object only.
func isRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

func (d *diff) causes(err error) (fields []string) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field != "" {
			fields = append(fields, d.target.Token(cause.Field))
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// changed leaves out fields that each write changes.
func (d *diff) changed(before, after *unstructured.Unstructured) ([]string, error) {
	of := func(obj *unstructured.Unstructured) (*typed.TypedValue, error) {
		content := obj.DeepCopy().Object
		for _, path := range [][]string{
			{"status"},
			{metadata, "managedFields"},
			{metadata, "resourceVersion"},
			{metadata, "generation"},
			{metadata, "annotations", d.preview.Identity.Keys().Fields},
		} {
			unstructured.RemoveNestedField(content, path...)
		}
		return typed.DeducedParseableType.FromUnstructured(content)
	}
	old, err := of(before)
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", d.target.name(before), err)
	}
	changed, err := of(after)
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", d.target.name(before), err)
	}
	differences, err := old.Compare(changed)
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", d.target.name(before), err)
	}
	var paths []string
	differences.Added.Union(differences.Modified).Union(differences.Removed).Leaves().Iterate(func(p fieldpath.Path) {
		paths = append(paths, d.target.Token(strings.TrimPrefix(p.String(), ".")))
	})
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// read may return nil.
func (d *diff) read(ctx context.Context, s *side, key client.ObjectKey) (*unstructured.Unstructured, error) {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(d.rule.GVK())
	err := s.all.Get(ctx, key, found)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // There is none.
	}
	if err != nil {
		return nil, s.explain(d.rule.GVK(), fmt.Errorf("read %s %s: %w", d.rule.GVK().Kind, key, err))
	}
	return found, nil
}
