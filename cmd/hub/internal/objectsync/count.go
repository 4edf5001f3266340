// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

// Count is the state of one rule in one remote.
type Count struct {
	Rule    rules.Rule
	Cluster string
	// Originals are selected in the source; Copies have a copy.
	Originals, Copies int
	// Missing have no copy. Of these, the name of Conflicts belongs to another object, of Names.
	Missing, Conflicts int
	Names              []string
	// Extra copies have no selected original.
	Extra int
	// Err is why the others are unknown, or nil.
	Err error
}

// Count counts for each rule and Cluster that selects the module. A silent remote has an error in its Counts.
func (f *Fleet) Count(ctx context.Context, s Scope) ([]Count, error) {
	return inEach(ctx, f, s, func(r rules.Rule, c *hubv1.Cluster) []Count {
		one := Count{Rule: r, Cluster: c.Name}
		one.Err = f.sides(ctx, r, c, func(source, target *side) error { return one.fill(ctx, f.at(c.Name), source, target) })
		return []Count{one}
	})
}

func (c *Count) fill(ctx context.Context, at rules.Place, source, target *side) error {
	t, err := translatorOf(c.Rule, at)
	if err != nil {
		return err
	}
	originals, err := originalsOf(ctx, c.Rule, c.Cluster, source)
	if err != nil {
		return source.explain(c.Rule.GVK(), err)
	}
	copies, err := copiesOf(ctx, c.Rule, at, target)
	if err != nil {
		return target.explain(c.Rule.GVK(), err)
	}
	c.Originals = len(originals)
	for i := range copies {
		up, ours := t.ToUpstream(unstructuredOf(c.Rule, &copies[i]))
		if !ours {
			continue
		}
		if of, known := originals[up]; known && string(of.UID) == copies[i].Annotations[c.Rule.Identity(at).Keys().ObjectUID] {
			delete(originals, up)
			c.Copies++
			continue
		}
		c.Extra++
	}
	c.Missing = len(originals)
	return c.findConflicts(ctx, t, originals, target)
}

// findConflicts looks for a first free name that belongs to an object which is no copy of the rule.
func (c *Count) findConflicts(ctx context.Context, t translator, missing map[types.NamespacedName]metav1.PartialObjectMetadata, target *side) error {
	managedBy := (syncer.Identity{}).Keys().ManagedBy
	for key := range missing {
		for _, name := range t.ToDownstream(key) {
			found, err := target.get(ctx, c.Rule.GVK(), name)
			if apierrors.IsNotFound(err) {
				break
			}
			if err != nil {
				return target.explain(c.Rule.GVK(), fmt.Errorf("read %s %s: %w", c.Rule.GVK().Kind, name, err))
			}
			if found.Labels[managedBy] != translate.ManagedBy(t) || !translate.IsCopy(found) {
				c.Conflicts++
				c.Names = append(c.Names, target.name(found))
				break
			}
		}
	}
	return nil
}

func originalsOf(ctx context.Context, r rules.Rule, cluster string, source *side) (map[types.NamespacedName]metav1.PartialObjectMetadata, error) {
	labelsOf, err := namespacesOf(ctx, r, source)
	if err != nil {
		return nil, err
	}
	selector := r.Selector(cluster, labelsOf)
	var options []client.ListOption
	if s := r.ObjectLabels(); s != nil {
		options = append(options, client.MatchingLabelsSelector{Selector: s})
	}
	namespaces := r.SourceNamespaces(cluster)
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	all := map[types.NamespacedName]metav1.PartialObjectMetadata{}
	for _, namespace := range namespaces {
		found, err := source.list(ctx, r.GVK(), append(options, client.InNamespace(namespace))...)
		if err != nil {
			return nil, err
		}
		for _, one := range found {
			if selector.Selects(&one) && one.DeletionTimestamp == nil {
				all[client.ObjectKeyFromObject(&one)] = one
			}
		}
	}
	return all, nil
}

func namespacesOf(ctx context.Context, r rules.Rule, source *side) (func(string) (map[string]string, bool), error) {
	known := map[string]map[string]string{}
	if r.NamespaceLabels() != nil {
		all, err := source.list(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"))
		if err != nil {
			return nil, err
		}
		for _, one := range all {
			known[one.Name] = one.Labels
		}
	}
	return func(name string) (map[string]string, bool) {
		found, ok := known[name]
		return found, ok
	}, nil
}

// copiesOf may return copies of copies.
func copiesOf(ctx context.Context, r rules.Rule, at rules.Place, target *side) ([]metav1.PartialObjectMetadata, error) {
	id := r.Identity(at)
	return target.list(ctx, r.GVK(), client.InNamespace(id.TargetNamespace), client.MatchingLabels{id.Keys().ManagedBy: id.Tenant})
}

// Print writes Counts to w. The errors of Counts are returned.
func Print(all []Count, form output.Form, w io.Writer) error {
	list := output.List{
		Kind: "RuleCount", Resource: "rule", Wide: []string{"Objects in conflict"},
		Columns: []string{"Rule", "Cluster", "From", "Kind", "Mode", "Originals", "Copies", "Missing", "Conflicts", "Extra"},
	}
	var problems []error
	for _, c := range all {
		fields := fieldsOf(c.Rule, c.Cluster, c.Err)
		cells := []any{c.Rule.Name, c.Cluster, string(c.Rule.From), c.Rule.Kind.Kind, string(c.Rule.Mode)}
		for i, n := range []int{c.Originals, c.Copies, c.Missing, c.Conflicts, c.Extra} {
			if c.Err != nil {
				cells = append(cells, unknown)
				continue
			}
			cells = append(cells, fmt.Sprint(n))
			fields[strings.ToLower(list.Columns[len(list.Columns)-5+i])] = int64(n)
		}
		if c.Err == nil {
			fields["conflictNames"] = output.Anys(c.Names)
		}
		list.Items = append(list.Items, output.Item{
			Name: c.Rule.Name + "." + c.Cluster, Fields: fields, Cells: append(cells, strings.Join(c.Names, ", ")),
		})
		problems = append(problems, problemOf(c.Rule, c.Cluster, c.Err))
	}
	return errors.Join(append(problems, form.Print(w, list))...)
}

// PrintChanges writes Changes to w. The errors of Changes are returned.
func PrintChanges(all []Change, form output.Form, w io.Writer) error {
	list := output.List{
		Kind: "RuleChange", Resource: "change", Columns: []string{"Rule", "Cluster", "Kind", "Object", "Action", "Reason", "Fields"},
	}
	var problems []error
	for _, c := range all {
		fields, action := fieldsOf(c.Rule, c.Cluster, c.Err), string(c.Action)
		if c.Err == nil {
			fields["object"], fields["action"], fields["reason"], fields["fields"] = c.Object, action, c.Reason, output.Anys(c.Fields)
		} else {
			action = unknown
		}
		list.Items = append(list.Items, output.Item{
			Name: strings.TrimSuffix(c.Rule.Name+"."+c.Cluster+"/"+c.Object, "/"), Fields: fields,
			Cells: []any{c.Rule.Name, c.Cluster, c.Rule.Kind.Kind, c.Object, action, c.Reason, strings.Join(c.Fields, ",")},
		})
		problems = append(problems, problemOf(c.Rule, c.Cluster, c.Err))
	}
	return errors.Join(append(problems, form.Print(w, list))...)
}

const metadata, unknown = "metadata", "<unknown>"

func problemOf(r rules.Rule, cluster string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("rule %s for %s: %w", r.Name, cluster, err)
}

// fieldsOf returns what the objects of Counts and Changes have for programs.
func fieldsOf(r rules.Rule, cluster string, err error) map[string]any {
	fields := map[string]any{
		"rule": r.Name, "cluster": cluster, "from": string(r.From), "mode": string(r.Mode),
		"objects": map[string]any{"apiVersion": r.Kind.APIVersion, "kind": r.Kind.Kind},
	}
	if err != nil {
		fields["error"] = err.Error()
	}
	return fields
}
