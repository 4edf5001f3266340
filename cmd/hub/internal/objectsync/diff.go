// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// Action is what a rule would do with one object of the target.
type Action string

// The actions. Replaced copies belong to an original that was deleted and made again. A Blocked name belongs to an object of
// somebody else, and a Rejected copy is refused by the target, or by a patch that does not fit.
const (
	Create  Action = "Create"
	Adopt   Action = "Adopt"
	Update  Action = "Update"
	Replace Action = "Replace"
	Delete  Action = "Delete"
	Blocked Action = "Blocked"
	Reject  Action = "Rejected"
)

// Change is a difference between a target and what a rule would make of it.
type Change struct {
	Rule    rules.Rule
	Cluster string
	// Object is the name of the object in the target, fit to be printed.
	Object string
	Action Action
	// Fields are the paths that an Update changes, fit to be printed. There are no values, since they may be those of a Secret.
	Fields []string
	// Err is why the differences of the rule are unknown; only Rule and Cluster are set then. Default: nil.
	Err error
}

// Diff returns what the rules would write now. It writes nothing: each write is a dry run in the target, which admits and
// validates it. A remote that does not respond has an error in a Change. Limits of objects and deletes are not considered.
func (f *Fleet) Diff(ctx context.Context, s Scope) ([]Change, error) {
	clusters, err := f.scope(ctx, s)
	if err != nil {
		return nil, err
	}
	results := make([][]Change, len(clusters))
	var asked errgroup.Group
	asked.SetLimit(parallel)
	for i := range clusters {
		asked.Go(func() error {
			results[i] = f.diffIn(ctx, &clusters[i], s)
			return nil
		})
	}
	_ = asked.Wait() // The Changes have the errors.
	return slices.Concat(results...), ctx.Err()
}

// diffIn compares for all rules of one Cluster.
func (f *Fleet) diffIn(ctx context.Context, c *hubv1.Cluster, s Scope) []Change {
	var all []Change
	for _, r := range f.Config.For(c.Labels) {
		if len(s.Rules) > 0 && !slices.Contains(s.Rules, r.Name) {
			continue
		}
		d := &diff{rule: r, cluster: c}
		err := r.CheckNamespaces(c.Name)
		if err == nil {
			err = f.sides(ctx, r, c, func(source, target *side) error { return d.compare(ctx, source, target) })
		}
		if err != nil {
			d.found = append(d.found, Change{Rule: r, Cluster: c.Name, Err: err})
		}
		all = append(all, d.found...)
	}
	return all
}

// diff compares one rule in one remote.
type diff struct {
	rule           rules.Rule
	cluster        *hubv1.Cluster
	source, target *side
	translator     translator
	preview        syncer.Preview
	found          []Change
}

func (d *diff) compare(ctx context.Context, source, target *side) (err error) {
	d.source, d.target = source, target
	kind := d.rule.GVK()
	if d.translator, err = translatorOf(d.rule, d.cluster.Name); err != nil {
		return err
	}
	patcher, err := d.rule.Patcher(rules.Cluster{Name: d.cluster.Name, Labels: d.cluster.Labels})
	if err != nil {
		return err
	}
	d.preview = syncer.Preview{
		Client: target.all, Kind: kind, Identity: d.rule.Identity(d.cluster.Name), Translator: d.translator, Exclude: d.rule.Exclude,
		Mutate: func(ctx context.Context, _, copied *unstructured.Unstructured) error {
			return patcher.Apply(ctx, copied)
		},
	}
	originals, err := originalsOf(ctx, d.rule, d.cluster.Name, source)
	if err != nil {
		return source.explain(kind, err)
	}
	copies, err := copiesOf(ctx, d.rule, d.cluster.Name, target)
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
	for _, key := range sorted(originals) {
		if err := d.original(ctx, key, existing[key]); err != nil {
			return err
		}
	}
	return nil
}

func sorted(originals map[types.NamespacedName]metav1.PartialObjectMetadata) []types.NamespacedName {
	keys := make([]types.NamespacedName, 0, len(originals))
	for key := range originals {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return keys
}

func (d *diff) add(a Action, obj metav1.Object, fields ...string) {
	d.found = append(d.found, Change{
		Rule: d.rule, Cluster: d.cluster.Name, Object: d.target.name(obj), Action: a, Fields: fields,
	})
}

// original compares an original with its copy, or with the place for a copy.
func (d *diff) original(ctx context.Context, key types.NamespacedName, copied *metav1.PartialObjectMetadata) error {
	up, err := d.read(ctx, d.source, key)
	if up == nil || err != nil {
		return err // It has gone meanwhile.
	}
	if copied == nil {
		return d.place(ctx, up)
	}
	name := client.ObjectKeyFromObject(copied)
	down, err := d.read(ctx, d.target, name)
	switch {
	case err != nil:
		return err
	case down == nil:
		return d.dryRun(ctx, write{action: Create, up: up, name: name})
	case down.GetAnnotations()[d.preview.Identity.Keys().ObjectUID] != string(up.GetUID()):
		d.add(Replace, down)
		return nil
	}
	return d.dryRun(ctx, write{action: Update, up: up, down: down, name: name})
}

// place finds the name that a new copy would get.
func (d *diff) place(ctx context.Context, up *unstructured.Unstructured) error {
	for _, name := range d.translator.ToDownstream(client.ObjectKeyFromObject(up)) {
		found, err := d.read(ctx, d.target, name)
		switch {
		case err != nil:
			return err
		case found == nil:
			return d.dryRun(ctx, write{action: Create, up: up, name: name})
		case d.isAdopted(ctx, up, found):
			return d.dryRun(ctx, write{action: Adopt, up: up, down: found, name: name})
		case found.GetLabels()[d.preview.Identity.Keys().ManagedBy] != d.preview.Identity.Tenant || !rules.IsCopy(found):
			d.add(Blocked, found)
			return nil
		}
	}
	d.add(Blocked, up)
	return nil
}

// isAdopted reports whether an object that has the name of the copy would become the copy.
func (d *diff) isAdopted(ctx context.Context, up, found *unstructured.Unstructured) bool {
	if d.rule.Adopt != rules.IfEqual {
		return false
	}
	copied := up.DeepCopy()
	return d.preview.Mutate(ctx, up, copied) == nil && rules.IsEqual(copied, found)
}

// write is a write of a copy. down is the object that has the name, or nil.
type write struct {
	action   Action
	up, down *unstructured.Unstructured
	name     types.NamespacedName
}

// dryRun adds the change that a write would make.
func (d *diff) dryRun(ctx context.Context, w write) error {
	answer, err := d.preview.DryRun(ctx, w.up, w.down, w.name)
	named := &metav1.ObjectMeta{Namespace: w.name.Namespace, Name: w.name.Name}
	switch {
	case isRefused(err):
		d.add(Reject, named)
		return nil
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

// isRefused reports whether an error concerns one object only.
func isRefused(err error) bool {
	return errors.Is(err, rules.ErrPatch) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

// changed returns the paths of the fields that differ, without those that each write changes.
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

// read returns an object, or nil if there is none.
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
