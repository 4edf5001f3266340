// SPDX-License-Identifier: Apache-2.0

package runners

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

const (
	columnType = "string" // of every column
	none       = "<none>"
	unknown    = "<unknown>"
	// For names and programs.
	kindRunner = "Runner"
	namePrefix = "runner/"
)

// Pick keeps these replicas in the list, or all without names. It fails for each name without a replica.
func (l *List) Pick(names []string) error {
	if len(names) == 0 {
		return nil
	}
	var picked []Runner
	var errs []error
	for _, name := range names {
		if r := l.find(strings.TrimPrefix(name, namePrefix)); r != nil {
			picked = append(picked, *r)
		} else {
			errs = append(errs, l.noSuch(name))
		}
	}
	l.Runners = picked
	return errors.Join(errs...)
}

func (l *List) noSuch(name string) error {
	if len(l.Runners) == 0 {
		return fmt.Errorf("%s: no replica has a Lease; see whether the Pods of the hub run", name)
	}
	var names []string
	for _, r := range l.Runners {
		names = append(names, r.Name)
	}
	return fmt.Errorf("%s: no replica of this name has a Lease; there are %s", name, strings.Join(names, ", "))
}

// Notes say what the rows of a table do not show.
func (l *List) Notes() []string {
	var notes []string
	if len(l.Unheld) > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d shards have no live holder: %s", len(l.Unheld), l.Shards, ranges(l.Unheld)))
	}
	if l.Ignored {
		notes = append(notes, "all live replicas are drained, so that the hub ignores it; cancel the drain of one of them")
	}
	return notes
}

// Print writes the list to w.
func (l *List) Print(form inspect.Form, w io.Writer) error {
	if form.Format.Tabular() {
		return form.Tables.Printer(w, form.Format.String() == output.Wide).Print(l.table())
	}
	printer, err := form.Format.Printer()
	if err != nil {
		return err
	}
	if form.Format.String() == output.Name {
		var errs []error
		for i := range l.Runners {
			_, err := fmt.Fprintln(w, namePrefix+l.Runners[i].Name)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{
		"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""},
		"shards": int64(l.Shards), "unheldShards": numbers(l.Unheld), "drainIgnored": l.Ignored,
	}}
	for i := range l.Runners {
		list.Items = append(list.Items, *l.object(&l.Runners[i]))
	}
	return printer.PrintObj(list, w)
}

func (l *List) object(r *Runner) *unstructured.Unstructured {
	object := map[string]any{
		"apiVersion": "v1", "kind": kindRunner, "metadata": map[string]any{"name": r.Name},
		"state": string(r.State), "drained": r.Drained, "shards": numbers(r.Shards), "assigns": r.Assigns, "runsOnce": r.RunsOnce,
		"incarnation": r.Incarnation, "version": r.Version,
	}
	if l.hasClusters {
		object["clusters"] = int64(r.Clusters)
	}
	if len(r.Labels) > 0 {
		values := map[string]any{}
		for key, value := range r.Labels {
			values[key] = value
		}
		object["labels"] = values
	}
	if !r.Renewed.IsZero() {
		object["renewed"] = r.Renewed.UTC().Format(time.RFC3339)
	}
	return &unstructured.Unstructured{Object: object}
}

func numbers(all []int) []any {
	converted := []any{}
	for _, n := range all {
		converted = append(converted, int64(n))
	}
	return converted
}

func (l *List) table() *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Name", Type: columnType, Format: "name"},
		{Name: "State", Type: columnType},
		{Name: "Shards", Type: columnType},
		{Name: "Clusters", Type: columnType},
		{Name: "Tasks", Type: columnType},
		{Name: "Version", Type: columnType},
		{Name: "Renewed", Type: columnType},
		{Name: "Held shards", Type: columnType, Priority: 1},
		{Name: "Labels", Type: columnType, Priority: 1},
		{Name: "Incarnation", Type: columnType, Priority: 1},
	}}
	for i := range l.Runners {
		r := &l.Runners[i]
		clusters, renewed := unknown, unknown
		if l.hasClusters {
			clusters = strconv.Itoa(r.Clusters)
		}
		if !r.Renewed.IsZero() {
			renewed = duration.HumanDuration(max(0, time.Since(r.Renewed))) + " ago"
		}
		table.Rows = append(table.Rows, metav1.TableRow{
			Cells: []any{
				r.Name, string(r.State), strconv.Itoa(len(r.Shards)), clusters, r.tasks(), orElse(r.Version, unknown), renewed,
				orElse(ranges(r.Shards), none), orElse(labels.Set(r.Labels).String(), none), orElse(r.Incarnation, none),
			},
			Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}},
		})
	}
	return table
}

// tasks are what the replica does for all: assigning shards, and what runs once.
func (r *Runner) tasks() string {
	switch {
	case r.Assigns && r.RunsOnce:
		return "assigner,leader"
	case r.Assigns:
		return "assigner"
	case r.RunsOnce:
		return "leader"
	}
	return none
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// ranges are as in 0-3,7.
func ranges(all []int) string {
	var parts []string
	for i := 0; i < len(all); {
		last := i
		for last+1 < len(all) && all[last+1] == all[last]+1 {
			last++
		}
		part := strconv.Itoa(all[i])
		if last > i {
			part += "-" + strconv.Itoa(all[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	return strings.Join(parts, ",")
}
