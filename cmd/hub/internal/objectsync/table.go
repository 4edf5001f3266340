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
)

// Print writes Counts to w. The errors of Counts are returned.
func Print(all []Count, form inspect.Form, w io.Writer) error {
	var problems []error
	for _, c := range all {
		if c.Err != nil {
			problems = append(problems, fmt.Errorf("rule %s for %s: %w", c.Rule.Name, c.Cluster, c.Err))
		}
	}
	problem := errors.Join(problems...)
	if form.Format.Tabular() {
		return errors.Join(form.Tables.Printer(w, form.Format.String() == output.Wide).Print(tableOf(all)), problem)
	}
	printer, err := form.Format.Printer()
	if err != nil {
		return err
	}
	if form.Format.String() == output.Name {
		for _, c := range all {
			_, err := fmt.Fprintln(w, "rule/"+c.name())
			problem = errors.Join(problem, err)
		}
		return problem
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{
		"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""},
	}}
	for _, c := range all {
		list.Items = append(list.Items, *c.object())
	}
	return errors.Join(printer.PrintObj(list, w), problem)
}

func (c *Count) name() string { return c.Rule.Name + "." + c.Cluster }

// object returns a Count for programs.
func (c *Count) object() *unstructured.Unstructured {
	conflicts := []any{}
	for _, name := range c.Names {
		conflicts = append(conflicts, name)
	}
	object := map[string]any{
		"apiVersion": "v1", "kind": "RuleCount", "metadata": map[string]any{"name": c.name()},
		"rule": c.Rule.Name, "cluster": c.Cluster, "from": string(c.Rule.From), "mode": string(c.Rule.Mode),
		"objects": map[string]any{"apiVersion": c.Rule.Kind.APIVersion, "kind": c.Rule.Kind.Kind},
	}
	if c.Err != nil {
		object["error"] = c.Err.Error()
		return &unstructured.Unstructured{Object: object}
	}
	object["originals"], object["copies"], object["missing"] = int64(c.Originals), int64(c.Copies), int64(c.Missing)
	object["extra"], object["conflicts"], object["conflictNames"] = int64(c.Extra), int64(c.Conflicts), conflicts
	return &unstructured.Unstructured{Object: object}
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
