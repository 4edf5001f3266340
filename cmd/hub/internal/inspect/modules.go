// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Modules says which modules to print.
type Modules struct {
	// Hub is where the Clusters are.
	Hub *access.Cluster
	// Known are the modules of this program, with their descriptions.
	Known map[string]string
	// Namespace is the credentials namespace, where the hub reports on hub parts.
	Namespace string
	// Names are the names of the modules. Default: all that this program has or that a Cluster names.
	Names []string
}

type module struct {
	name     string
	clusters []any // of map[string]any
	in       map[hubv1.ModuleState]int
	troubled []string
	parts    []partreport.Report // of the replicas with its hub part
}

// Print writes the modules to w. An unknown name is an error.
func (m Modules) Print(ctx context.Context, format output.Format, w io.Writer) error {
	var list hubv1.ClusterList
	if err := m.Hub.List(ctx, &list); err != nil {
		return m.Hub.Explain(fmt.Errorf("list Clusters: %w", err))
	}
	reports, bad := partreport.Read(ctx, m.Hub, m.Namespace)
	if apierrors.IsForbidden(bad) {
		bad = nil // the table says that it is unknown
	}
	if bad != nil {
		bad = m.Hub.Explain(fmt.Errorf("read the report on hub parts: %w", bad))
	}
	found, err := m.pick(m.count(list.Items, reports))
	err = errors.Join(err, bad)
	return errors.Join(err, format.Print(w, m.list(found, reports)))
}

func (m *module) hubParts() []any {
	var all []any
	for _, report := range m.parts {
		part := report.Of(m.name)
		all = append(all, map[string]any{
			"state": part.State, "reason": part.Reason, "message": part.Message,
			"since": part.Since.UTC().Format(time.RFC3339), "replica": report.Replica,
		})
	}
	return all
}

func (m Modules) count(clusters []hubv1.Cluster, reports []partreport.Report) map[string]*module {
	all := map[string]*module{}
	of := func(name string) *module {
		if all[name] == nil {
			all[name] = &module{name: name, clusters: []any{}, in: map[hubv1.ModuleState]int{}}
		}
		return all[name]
	}
	for name := range m.Known {
		of(name)
	}
	for _, cluster := range clusters {
		for _, status := range cluster.Status.Modules {
			one := of(status.Name)
			one.in[status.State]++
			one.clusters = append(one.clusters, map[string]any{
				"name": cluster.Name, "state": string(status.State), "reason": status.Reason, "message": status.Message,
			})
			if status.State == hubv1.ModuleFailed || status.State == hubv1.ModuleWaiting {
				one.troubled = append(one.troubled, fmt.Sprintf("%s (%s)", cluster.Name, status.Reason))
			}
		}
	}
	for _, report := range reports {
		for _, part := range report.Parts {
			of(part.Module).parts = reportsOf(part.Module, reports)
		}
	}
	return all
}

// pick returns the requested modules, sorted by name.
func (m Modules) pick(all map[string]*module) ([]*module, error) {
	names, errs := m.Names, []error(nil)
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(all))
	}
	var picked []*module
	for _, name := range names {
		if all[name] == nil {
			errs = append(errs, fmt.Errorf("module %q is not in this program, and no Cluster names it; there are %s",
				name, strings.Join(slices.Sorted(maps.Keys(all)), ", ")))
			continue
		}
		picked = append(picked, all[name])
	}
	return picked, errors.Join(errs...)
}

func (m Modules) list(found []*module, reports []partreport.Report) output.List {
	list := output.List{
		Kind:    "Module",
		Columns: []string{"Name", "Running", "Waiting", "Failed", "Hub part", "Since", "Description"},
		Wide:    []string{"Not running in", "Message of the hub part"},
	}
	for _, one := range found {
		description, ok := m.Known[one.name]
		if !ok {
			description = "<not in this program>"
		}
		part, since, message := one.hubPart(reports)
		fields := map[string]any{"description": m.Known[one.name], "clusters": one.clusters}
		if parts := one.hubParts(); len(parts) > 0 {
			fields["hubPart"], fields["hubParts"] = parts[0], parts
		}
		list.Items = append(list.Items, output.Item{Name: one.name, Fields: fields, Cells: []any{
			one.name, fmt.Sprintf("%d/%d", one.in[hubv1.ModuleRunning], len(one.clusters)),
			fmt.Sprint(one.in[hubv1.ModuleWaiting]), fmt.Sprint(one.in[hubv1.ModuleFailed]),
			part, since, description, strings.Join(one.troubled, ", "), message,
		}})
	}
	return list
}

func (m *module) hubPart(reports []partreport.Report) (state, since, message string) {
	const none, unknown = "<none>", "<unknown>"
	switch {
	case len(reports) == 0:
		return unknown, none, ""
	case len(m.parts) == 0:
		return none, none, ""
	}
	var changed time.Time
	for _, report := range m.parts {
		if at := report.Of(m.name).Since.Time; changed.Before(at) {
			changed = at
		}
	}
	state, message = HubPart(m.name, reports)
	return state, duration.HumanDuration(max(0, time.Since(changed))), message
}

// HubPart returns the state of the hub part of a module in all replicas, which it names if their states differ, and the
// messages.
func HubPart(module string, reports []partreport.Report) (state, message string) {
	in := map[string][]string{}
	var states, messages []string
	for _, report := range reportsOf(module, reports) {
		part := report.Of(module)
		if text := part.String(); in[text] == nil {
			states = append(states, text)
		}
		in[part.String()] = append(in[part.String()], report.Replica)
		if part.Message != "" && !slices.Contains(messages, part.Message) {
			messages = append(messages, part.Message)
		}
	}
	if len(states) > 1 {
		for i, text := range states {
			states[i] = text + " in " + strings.Join(in[text], " and ")
		}
	}
	return strings.Join(states, ", "), strings.Join(messages, "; ")
}

// reportsOf leaves out the replicas in which the hub part stands by, unless it does in all.
func reportsOf(module string, reports []partreport.Report) []partreport.Report {
	var all, active []partreport.Report
	for _, report := range reports {
		part := report.Of(module)
		if part == nil {
			continue
		}
		all = append(all, report)
		if part.State != state.ModuleStandby {
			active = append(active, report)
		}
	}
	if len(active) > 0 {
		return active
	}
	return all
}
