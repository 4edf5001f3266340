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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
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
func Print(all []Count, form inspect.Form, w io.Writer) error {
	rows := make([]row, len(all))
	for i := range all {
		rows[i] = &all[i]
	}
	return printRows(rows, tableOf(all), form, w)
}

// PrintChanges writes Changes to w. The errors of Changes are returned.
func PrintChanges(all []Change, form inspect.Form, w io.Writer) error {
	rows := make([]row, len(all))
	for i := range all {
		rows[i] = &all[i]
	}
	return printRows(rows, tableOfChanges(all), form, w)
}

// row is a Count or a Change.
type row interface {
	resource() string
	object() *unstructured.Unstructured
	problem() error
}

func printRows(all []row, table *metav1.Table, form inspect.Form, w io.Writer) error {
	var problems []error
	for _, one := range all {
		problems = append(problems, one.problem())
	}
	problem := errors.Join(problems...)
	if form.Format.Tabular() {
		return errors.Join(form.Tables.Printer(w, form.Format.String() == output.Wide).Print(table), problem)
	}
	printer, err := form.Format.Printer()
	if err != nil {
		return err
	}
	if form.Format.String() == output.Name {
		for _, one := range all {
			_, err := fmt.Fprintln(w, one.resource())
			problem = errors.Join(problem, err)
		}
		return problem
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{
		apiVersion: "v1", kind: "List", metadata: map[string]any{"resourceVersion": ""},
	}}
	for _, one := range all {
		list.Items = append(list.Items, *one.object())
	}
	return errors.Join(printer.PrintObj(list, w), problem)
}

func problemOf(rule, cluster string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("rule %s for %s: %w", rule, cluster, err)
}

func (c *Count) problem() error { return problemOf(c.Rule.Name, c.Cluster, c.Err) }

func (c *Count) resource() string { return "rule/" + c.name() }

func (c *Count) name() string { return c.Rule.Name + "." + c.Cluster }

// object returns a Count for programs.
func (c *Count) object() *unstructured.Unstructured {
	conflicts := []any{}
	for _, name := range c.Names {
		conflicts = append(conflicts, name)
	}
	object := objectOf("RuleCount", c.name(), c.Rule, c.Cluster)
	if c.Err != nil {
		object["error"] = c.Err.Error()
		return &unstructured.Unstructured{Object: object}
	}
	object["originals"], object["copies"], object["missing"] = int64(c.Originals), int64(c.Copies), int64(c.Missing)
	object["extra"], object["conflicts"], object["conflictNames"] = int64(c.Extra), int64(c.Conflicts), conflicts
	return &unstructured.Unstructured{Object: object}
}

// metadata, apiVersion and kind are fields of every object.
const metadata, apiVersion, kind = "metadata", "apiVersion", "kind"

// objectOf returns the beginning of an object for programs.
func objectOf(ofKind, name string, r rules.Rule, cluster string) map[string]any {
	return map[string]any{
		apiVersion: "v1", kind: ofKind, metadata: map[string]any{"name": name},
		"rule": r.Name, "cluster": cluster, "from": string(r.From), "mode": string(r.Mode),
		"objects": map[string]any{apiVersion: r.Kind.APIVersion, kind: r.Kind.Kind},
	}
}

// columnType is the type of every column.
const columnType = "string"

func tableOf(all []Count) *metav1.Table {
	table := &metav1.Table{}
	for _, name := range []string{"Rule", "Cluster", "From", "Kind", "Mode", "Originals", "Copies", "Missing", "Conflicts", "Extra"} {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: columnType})
	}
	table.ColumnDefinitions = append(table.ColumnDefinitions,
		metav1.TableColumnDefinition{Name: "Objects in conflict", Type: columnType, Priority: 1})
	for _, c := range all {
		cells := []any{c.Rule.Name, c.Cluster, string(c.Rule.From), c.Rule.Kind.Kind, string(c.Rule.Mode)}
		for _, n := range []int{c.Originals, c.Copies, c.Missing, c.Conflicts, c.Extra} {
			text := fmt.Sprint(n)
			if c.Err != nil {
				text = "<unknown>"
			}
			cells = append(cells, text)
		}
		table.Rows = append(table.Rows, metav1.TableRow{
			Cells:  append(cells, strings.Join(c.Names, ", ")),
			Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: c.name()}}},
		})
	}
	return table
}

func (c *Change) problem() error { return problemOf(c.Rule.Name, c.Cluster, c.Err) }

// name names a Change: rule, cluster and object.
func (c *Change) name() string {
	return strings.TrimSuffix(c.Rule.Name+"."+c.Cluster+"/"+c.Object, "/")
}

func (c *Change) resource() string { return "change/" + c.name() }

// object returns a Change for programs.
func (c *Change) object() *unstructured.Unstructured {
	object := objectOf("RuleChange", c.name(), c.Rule, c.Cluster)
	if c.Err != nil {
		object["error"] = c.Err.Error()
		return &unstructured.Unstructured{Object: object}
	}
	fields := []any{}
	for _, field := range c.Fields {
		fields = append(fields, field)
	}
	object["object"], object["action"], object["reason"], object["fields"] = c.Object, string(c.Action), c.Reason, fields
	return &unstructured.Unstructured{Object: object}
}

func tableOfChanges(all []Change) *metav1.Table {
	table := &metav1.Table{}
	for _, name := range []string{"Rule", "Cluster", "Kind", "Object", "Action", "Reason", "Fields"} {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: columnType})
	}
	for _, c := range all {
		action := string(c.Action)
		if c.Err != nil {
			action = "<unknown>"
		}
		table.Rows = append(table.Rows, metav1.TableRow{
			Cells:  []any{c.Rule.Name, c.Cluster, c.Rule.Kind.Kind, c.Object, action, c.Reason, strings.Join(c.Fields, ",")},
			Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: c.name()}}},
		})
	}
	return table
}
