// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/entities"
)

// columns returns the columns of a table.
func columns(names ...string) []metav1.TableColumnDefinition {
	all := make([]metav1.TableColumnDefinition, 0, len(names))
	for _, name := range names {
		all = append(all, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	return all
}

// entityTable returns the table of entities.
func entityTable(list []entities.Document) *metav1.Table {
	t := &metav1.Table{ColumnDefinitions: columns("Key", "Revision", "Ready", "Changed")}
	for i := range list {
		d := &list[i]
		ready := "-"
		if n, all := d.Ready(); all > 0 {
			ready = fmt.Sprintf("%d/%d", n, all)
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: []any{d.Key, fmt.Sprint(d.Revision), ready, age(d.Created)}})
	}
	return t
}

// age returns how long ago a time is.
func age(at time.Time) string { return duration.HumanDuration(max(0, time.Since(at))) }

// changePrinter prints the changes of a bucket.
type changePrinter struct {
	out    io.Writer
	format entityFormat
	begun  bool
}

func newChangePrinter(out io.Writer, f entityFormat) *changePrinter {
	return &changePrinter{out: out, format: f}
}

// changeRow is the row of a table: the key comes last, since it may be long.
const changeRow = "%-10s%-10s%-10s%s\n"

// print prints a change.
func (p *changePrinter) print(d entities.Document) error {
	isDeleted := d.Value == nil && d.Raw == nil
	switch p.format {
	case formatJSON:
		return json.NewEncoder(p.out).Encode(d)
	case formatYAML:
		text, err := entities.YAML(d)
		if err == nil {
			_, err = p.out.Write(append([]byte("---\n"), text...))
		}
		return err
	}
	if !p.begun {
		p.begun = true
		if _, err := fmt.Fprintf(p.out, changeRow, "TIME", "CHANGE", "REVISION", "KEY"); err != nil {
			return err
		}
	}
	at, what := d.Created, "put"
	if isDeleted {
		at, what = time.Now(), "deleted"
	}
	_, err := fmt.Fprintf(p.out, changeRow, at.Local().Format(time.TimeOnly), what, fmt.Sprint(d.Revision), d.Key)
	return err
}
