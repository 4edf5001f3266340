// SPDX-License-Identifier: Apache-2.0

package output

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// Format is the value of the flag --output. The zero value is a table.
type Format string

// Formats. Wide is a table with all columns.
const (
	Table Format = ""
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// Bind adds the flag --output of a command that prints data. Usage says what it prints by default.
func (f *Format) Bind(set *pflag.FlagSet, usage string) {
	set.VarP(OneOf(f, JSON, YAML), "output", "o", usage)
}

// BindList adds the flag --output of a command that prints a List.
func (f *Format) BindList(set *pflag.FlagSet) {
	set.VarP(OneOf(f, JSON, YAML, Wide), "output", "o", "json, yaml or wide. Default: a table")
}

// Tabular reports whether a table is wanted.
func (f *Format) Tabular() bool { return *f == Table || *f == Wide }

// PrintData writes a value to w, as YAML or, for every other format, as JSON.
func PrintData(w io.Writer, format Format, value any) error {
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

// PrintObjects writes objects to w as JSON or YAML, so that kubectl apply -f - takes them.
func PrintObjects[T runtime.Object](w io.Writer, format Format, objects []T) error {
	if format == JSON {
		list := metav1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
		for _, o := range objects {
			list.Items = append(list.Items, runtime.RawExtension{Object: o})
		}
		return PrintData(w, JSON, list)
	}
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("write an object: %w", err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

// PrintDone writes what was done with an object, as in "cluster.clusterfx.dev/edge created (dry run)".
func PrintDone(w io.Writer, object runtime.Object, operation string) error {
	return (&printers.NamePrinter{Operation: operation}).PrintObj(object, w)
}

// PrintTable writes a table to w. The wide one has the columns with a priority, too.
func PrintTable(w io.Writer, table *metav1.Table, wide bool) error {
	tabs := printers.GetNewTabWriter(w)
	return errors.Join(printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(table, tabs), tabs.Flush())
}

// List is a list of things, for people and for programs.
type List struct {
	// Kind is that of the objects for programs.
	Kind string
	// Columns are those of the table, and Wide further ones of the wide table.
	Columns, Wide []string
	Items         []Item
}

// Item is a thing in a List: a row with a cell for each column, and the fields of an object.
type Item struct {
	Name   string
	Cells  []any
	Fields map[string]any
}

// Print writes the list to w.
func (f *Format) Print(w io.Writer, list List) error {
	if f.Tabular() {
		return PrintTable(w, list.table(), *f == Wide)
	}
	items := []any{}
	for _, one := range list.Items {
		object := map[string]any{"apiVersion": "v1", "kind": list.Kind, "metadata": map[string]any{"name": one.Name}}
		maps.Copy(object, one.Fields)
		items = append(items, object)
	}
	return PrintData(w, *f, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
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

// The lines of a graph in DOT, as fx writes them.
var (
	dotGroup = regexp.MustCompile(`^subgraph (\w+) \{$`)
	dotLabel = regexp.MustCompile(`\blabel ?= ?("(?:[^"\\]|\\.)*")`)
	dotNode  = regexp.MustCompile(`^(\w+|"(?:[^"\\]|\\.)*") \[.*\];$`)
	dotArrow = regexp.MustCompile(`^(\w+|"(?:[^"\\]|\\.)*") -> ("(?:[^"\\]|\\.)*")(.*);$`)
)

// Mermaid returns a graph of fx in the language of diagrams in Markdown, in which a type has a name, since it cannot be one.
func Mermaid(dot string) string {
	out, types := "flowchart RL", map[string]string{}
	label := func(quoted string) string {
		text, _ := strconv.Unquote(quoted) // fx has quoted it.
		return `["` + strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;").Replace(text) + `"]`
	}
	node := func(name string) string {
		id, known := types[name]
		if name[0] != '"' || known {
			return cmp.Or(id, name)
		}
		types[name] = fmt.Sprintf("t%d", len(types))
		return types[name] + label(name)
	}
	for line := range strings.Lines(strings.TrimSuffix(strings.TrimSpace(dot), "}")) {
		line = strings.TrimSpace(line)
		text := dotLabel.FindStringSubmatch(line)
		group, arrow, one := dotGroup.FindStringSubmatch(line), dotArrow.FindStringSubmatch(line), dotNode.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "graph ["): // of the whole
		case group != nil:
			out += "\nsubgraph " + group[1]
		case arrow != nil && strings.Contains(arrow[3], "style=dashed"):
			out += "\n" + node(arrow[1]) + " -.-> " + node(arrow[2])
		case arrow != nil:
			out += "\n" + node(arrow[1]) + " --> " + node(arrow[2])
		case one != nil && text != nil:
			out += "\n" + node(one[1]) + label(text[1])
		case one != nil:
			out += "\n" + node(one[1])
		case text != nil: // of the group before
			out += label(text[1])
		case line == "}":
			out += "\nend"
		}
	}
	return out
}
