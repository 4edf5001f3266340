// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

// The rows of a watch are printed one by one, and are aligned with the header of the first row.
func TestTablePrinter_AlignsRowsThatComeLater(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	var tables output.Tables
	printer := tables.Printer(&out, false)
	for _, name := range []string{"a-long-name", "b"} {
		err := printer.Print(&metav1.Table{
			ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name"}, {Name: "Ready"}},
			Rows:              []metav1.TableRow{{Cells: []any{name, "True"}}},
		})
		must(t, err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("want a header and two rows:\n%s", out.String())
	}
	column := strings.Index(lines[0], "READY")
	for _, line := range lines[1:] {
		if strings.Index(line, "True") != column {
			t.Errorf("the columns are not aligned:\n%s", out.String())
		}
	}
}
