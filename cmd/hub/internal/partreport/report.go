// SPDX-License-Identifier: Apache-2.0

package partreport

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	// Name is the name of the ConfigMap, in the credentials namespace.
	Name = "clusterfx-modules"
	// dataKey is for a hub with all Clusters. Of replicas, the name is between keyPrefix and keySuffix.
	dataKey              = "hub-parts.json"
	keyPrefix, keySuffix = "hub-parts.", ".json"
)

func keyOf(replica string) string { return keyPrefix + replica + keySuffix }

// Report is the state of all hub parts in one replica.
type Report struct {
	// Written is when the report was written, Replica by which hub.
	Written metav1.Time `json:"written"`
	Replica string      `json:"replica"`
	Parts   []Part      `json:"hubParts"`
}

// Part is the state of the hub part of one module.
type Part struct {
	Module  string      `json:"module"`
	State   string      `json:"state"`
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	Since   metav1.Time `json:"since"`
}

// Reports are the reports of the replicas of a hub, in the order of their names. A hub that does not share its Clusters has one.
type Reports []Report

// Rules returns what the hub needs to write the report, beside creating ConfigMaps.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{Name}, Verbs: []string{"update"}},
	}
}

// ReplicaRules returns what replicas that share the Clusters need beside Rules.
func ReplicaRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{Name}, Verbs: []string{"patch"}},
	}
}

// Read returns the reports; none if the hub has not reported. Old ones are returned only if all are.
func Read(ctx context.Context, hub client.Reader, namespace string) (Reports, error) {
	var found corev1.ConfigMap
	err := hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, &found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all Reports
	for _, key := range slices.Sorted(maps.Keys(found.Data)) {
		if !strings.HasPrefix(key, keyPrefix) || !strings.HasSuffix(key, keySuffix) {
			continue
		}
		var report Report
		if err := json.Unmarshal([]byte(found.Data[key]), &report); err != nil {
			return nil, fmt.Errorf("read %s in ConfigMap %s/%s: %w; delete the ConfigMap, and the hub writes it again", key, namespace, Name, err)
		}
		all = append(all, report)
	}
	if all.Old() {
		return all, nil
	}
	return slices.DeleteFunc(all, func(r Report) bool { return r.Old() }), nil
}

// Of returns the state of the hub part of a module, or nil if the module has none.
func (r *Report) Of(module string) *Part {
	for i := range r.Parts {
		if r.Parts[i].Module == module {
			return &r.Parts[i]
		}
	}
	return nil
}

// Old reports whether all reports are Old, which is true of none.
func (r Reports) Old() bool {
	return !slices.ContainsFunc(r, func(one Report) bool { return !one.Old() })
}

// Latest returns the report that was written last, or nil if there is none.
func (r Reports) Latest() *Report {
	var latest *Report
	for i := range r {
		if latest == nil || latest.Written.Before(&r[i].Written) {
			latest = &r[i]
		}
	}
	return latest
}

// Of returns the reports on a module's hub part. Replicas in which it stands by are left out, unless it does in all.
func (r Reports) Of(module string) Reports {
	var all, active Reports
	for _, report := range r {
		switch part := report.Of(module); {
		case part == nil:
		case part.State == state.ModuleStandby:
			all = append(all, report)
		default:
			all, active = append(all, report), append(active, report)
		}
	}
	if len(active) > 0 {
		return active
	}
	return all
}

// Summary returns the state of the hub part of a module in all replicas. It names the replicas if their states differ.
func (r Reports) Summary(module string) string {
	in, states := map[string][]string{}, []string(nil)
	for _, report := range r.Of(module) {
		state := report.Of(module).String()
		if in[state] == nil {
			states = append(states, state)
		}
		in[state] = append(in[state], report.Replica)
	}
	if len(states) == 1 {
		return states[0]
	}
	for i, state := range states {
		states[i] = state + " in " + strings.Join(in[state], " and ")
	}
	return strings.Join(states, ", ")
}

// Age returns how old the report is, for people.
func (r *Report) Age() string { return duration.HumanDuration(max(0, time.Since(r.Written.Time))) }

// Old reports whether the hub should have written it again.
func (r *Report) Old() bool { return time.Since(r.Written.Time) > 3*refresh }

// String returns the state and the reason.
func (p *Part) String() string {
	if p.State == state.ModuleRunning || p.Reason == "" || p.Reason == p.State {
		return p.State
	}
	return p.State + " (" + p.Reason + ")"
}
