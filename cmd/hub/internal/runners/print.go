// SPDX-License-Identifier: Apache-2.0

package runners

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

const none, unknown = "<none>", "<unknown>"

// Pick keeps these replicas in the list, or all without names. It fails for each name without a replica.
func (l *List) Pick(names []string) error {
	if len(names) == 0 {
		return nil
	}
	var picked []Runner
	var errs []error
	for _, name := range names {
		if r := l.find(strings.TrimPrefix(name, "runner/")); r != nil {
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
func (l *List) Print(form output.Form, w io.Writer) error {
	list := output.List{
		Kind: "Runner", Resource: "runner",
		Columns: []string{"Name", "State", "Shards", "Clusters", "Tasks", "Version", "Renewed"},
		Wide:    []string{"Held shards", "Labels", "Incarnation"},
		Fields:  map[string]any{"shards": int64(l.Shards), "unheldShards": numbers(l.Unheld), "drainIgnored": l.Ignored},
	}
	for _, r := range l.Runners {
		list.Items = append(list.Items, l.item(&r))
	}
	return form.Print(w, list)
}

func (l *List) item(r *Runner) output.Item {
	clusters, renewed := unknown, unknown
	fields := map[string]any{
		"state": string(r.State), "drained": r.Drained, "shards": numbers(r.Shards), "assigns": r.Assigns, "runsOnce": r.RunsOnce,
		"incarnation": r.Incarnation, "version": r.Version,
	}
	if l.hasClusters {
		clusters, fields["clusters"] = strconv.Itoa(r.Clusters), int64(r.Clusters)
	}
	if len(r.Labels) > 0 {
		values := map[string]any{}
		for key, value := range r.Labels {
			values[key] = value
		}
		fields["labels"] = values
	}
	if !r.Renewed.IsZero() {
		renewed = duration.HumanDuration(max(0, time.Since(r.Renewed))) + " ago"
		fields["renewed"] = r.Renewed.UTC().Format(time.RFC3339)
	}
	return output.Item{Name: r.Name, Fields: fields, Cells: []any{
		r.Name, string(r.State), strconv.Itoa(len(r.Shards)), clusters, r.tasks(), cmp.Or(r.Version, unknown), renewed,
		cmp.Or(ranges(r.Shards), none), cmp.Or(labels.Set(r.Labels).String(), none), cmp.Or(r.Incarnation, none),
	}}
}

func numbers(all []int) []any {
	converted := []any{}
	for _, n := range all {
		converted = append(converted, int64(n))
	}
	return converted
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
