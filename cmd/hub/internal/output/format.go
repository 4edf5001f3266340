// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// Formats beside the templates. Table is the default, and Wide has all columns.
const (
	Table = ""
	Wide  = "wide"
	JSON  = "json"
	YAML  = "yaml"
	Name  = "name"

	jsonPathPrefix = "jsonpath="
	templatePrefix = "go-template="
)

// Format is the value of the flag --output. The zero value is a table.
type Format struct{ text string }

// Bind adds the flag --output. Usage says which formats there are; empty means all.
func (f *Format) Bind(set *pflag.FlagSet, usage string) {
	if usage == "" {
		usage = "json, yaml, name, wide, jsonpath=TEMPLATE or go-template=TEMPLATE. Default: a table"
	}
	set.StringVarP(&f.text, "output", "o", "", usage)
}

// String returns the value of the flag.
func (f *Format) String() string { return f.text }

// Tabular reports whether a table is wanted.
func (f *Format) Tabular() bool { return f.text == Table || f.text == Wide }

// Printer returns a printer, or an error that names the formats. For a table see Tables.
func (f *Format) Printer() (printers.ResourcePrinter, error) {
	switch f.text {
	case JSON:
		return &printers.OmitManagedFieldsPrinter{Delegate: &printers.JSONPrinter{}}, nil
	case YAML:
		return &printers.OmitManagedFieldsPrinter{Delegate: &printers.YAMLPrinter{}}, nil
	case Name:
		return &printers.NamePrinter{ShortOutput: true}, nil
	}
	if f.text == jsonPathPrefix || f.text == templatePrefix {
		return nil, fmt.Errorf("--output=%q: put a template after it, as in jsonpath={.metadata.name}", f.text)
	}
	if template, ok := strings.CutPrefix(f.text, jsonPathPrefix); ok {
		p, err := printers.NewJSONPathPrinter(template)
		if err != nil {
			return nil, fmt.Errorf("--output=%q is not understood: %w", f.text, err)
		}
		p.AllowMissingKeys(true)
		return p, nil
	}
	if template, ok := strings.CutPrefix(f.text, templatePrefix); ok {
		p, err := printers.NewGoTemplatePrinter([]byte(template))
		if err != nil {
			return nil, fmt.Errorf("--output=%q is not understood: %w", f.text, err)
		}
		p.AllowMissingKeys(true)
		return p, nil
	}
	return nil, fmt.Errorf("--output=%q: use json, yaml, name, wide, jsonpath=TEMPLATE or go-template=TEMPLATE", f.text)
}

// CheckData returns an error unless the format is JSON, YAML or, by default, a text.
func (f *Format) CheckData() error {
	if f.text == Table || f.text == JSON || f.text == YAML {
		return nil
	}
	return fmt.Errorf("--output=%q: use json or yaml", f.text)
}

// PrintData writes a value to w, as YAML or, for every other format, as JSON.
func PrintData(w io.Writer, format string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	text = append(text, '\n')
	if format == YAML {
		text, err = yaml.Marshal(value)
	}
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// Check returns an error unless the format is a known one.
func (f *Format) Check() error {
	if f.Tabular() {
		return nil
	}
	_, err := f.Printer()
	return err
}

// Done prints a completed operation, as in "cluster.clusterfx.dev/edge paused", unless another format is selected.
func (f *Format) Done(operation string) (printers.ResourcePrinter, error) {
	if f.text == Table {
		return &printers.NamePrinter{Operation: operation}, nil
	}
	return f.Printer()
}

// Tables says how tables look. The zero value is how they look by default.
type Tables struct{ options printers.PrintOptions }

// Bind adds the flags of tables to a set, which are kubectl's.
func (t *Tables) Bind(set *pflag.FlagSet) {
	set.BoolVar(&t.options.NoHeaders, "no-headers", false, "Leave out the line with the names of the columns (default false)")
	set.BoolVar(&t.options.ShowLabels, "show-labels", false, "Add a column with all labels (default false)")
	set.StringSliceVarP(&t.options.ColumnLabels, "label-columns", "L", nil, "Add a column for each of these labels")
}

// Print writes a table to w. The wide one has the columns with a priority, too.
func (t *Tables) Print(w io.Writer, table *metav1.Table, wide bool) error {
	options, tabs := t.options, printers.GetNewTabWriter(w)
	options.Wide = wide
	return errors.Join(printers.NewTablePrinter(options).PrintObj(table, tabs), tabs.Flush())
}

// Form says how to print a List.
type Form struct {
	Format Format
	Tables Tables
}

// Bind adds the flags of both to a command.
func (f *Form) Bind(cmd *cobra.Command) {
	f.Format.Bind(cmd.Flags(), "")
	f.Tables.Bind(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions( // It fails for a flag that is not there or has one.
		[]cobra.Completion{JSON, YAML, Name, Wide, jsonPathPrefix, templatePrefix}, cobra.ShellCompDirectiveNoFileComp))
}

// List is a list of things, for people and for programs.
type List struct {
	// Kind is that of the objects for programs, and Resource stands before their names.
	Kind, Resource string
	// Columns are those of the table, and Wide further ones of the wide table.
	Columns, Wide []string
	Items         []Item
	// Fields are those of the list itself.
	Fields map[string]any
}

// Item is a thing in a List: a row with a cell for each column, and the fields of an object.
type Item struct {
	Name   string
	Cells  []any
	Fields map[string]any
}

// Print writes the list to w.
func (f *Form) Print(w io.Writer, list List) error {
	if f.Format.Tabular() {
		return f.Tables.Print(w, list.table(), f.Format.text == Wide)
	}
	if f.Format.text == Name {
		var text strings.Builder
		for _, one := range list.Items {
			fmt.Fprintf(&text, "%s/%s\n", list.Resource, one.Name)
		}
		_, err := io.WriteString(w, text.String())
		return err
	}
	printer, err := f.Format.Printer()
	if err != nil {
		return err
	}
	all := &unstructured.UnstructuredList{Object: map[string]any{
		"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""},
	}}
	maps.Copy(all.Object, list.Fields)
	for _, one := range list.Items {
		object := map[string]any{"apiVersion": "v1", "kind": list.Kind, "metadata": map[string]any{"name": one.Name}}
		maps.Copy(object, one.Fields)
		all.Items = append(all.Items, unstructured.Unstructured{Object: object})
	}
	return printer.PrintObj(all, w)
}

func (l List) table() *metav1.Table {
	table := &metav1.Table{}
	for i, name := range slices.Concat(l.Columns, l.Wide) {
		column := metav1.TableColumnDefinition{Name: name, Type: "string"}
		if i >= len(l.Columns) {
			column.Priority = 1
		}
		table.ColumnDefinitions = append(table.ColumnDefinitions, column)
	}
	for _, one := range l.Items {
		table.Rows = append(table.Rows, metav1.TableRow{
			Cells:  one.Cells,
			Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: one.Name}}},
		})
	}
	return table
}

// Anys returns values as the value of a field.
func Anys[T any](all []T) []any {
	converted := make([]any, len(all))
	for i, one := range all {
		converted[i] = one
	}
	return converted
}
