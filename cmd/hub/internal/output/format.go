// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
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

// Printer writes tables to w below one header.
func (t *Tables) Printer(w io.Writer, wide bool) *TablePrinter {
	options := t.options
	options.Wide = wide
	return &TablePrinter{tabs: printers.GetNewTabWriter(w), table: printers.NewTablePrinter(options)}
}

// TablePrinter prints tables. It is made by Tables.Printer.
type TablePrinter struct {
	tabs  flusher // remembers how wide the columns are
	table printers.ResourcePrinter
}

// Print writes complete lines, below the columns of those before.
func (p *TablePrinter) Print(t *metav1.Table) error {
	if err := p.table.PrintObj(t, p.tabs); err != nil {
		return err
	}
	return p.tabs.Flush()
}

type flusher interface {
	io.Writer
	Flush() error
}
