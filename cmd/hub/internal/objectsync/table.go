// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
)

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
