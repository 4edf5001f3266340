// SPDX-License-Identifier: Apache-2.0

package output

import (
	"io"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
)

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
