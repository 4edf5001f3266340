// SPDX-License-Identifier: Apache-2.0

package partreport

import (
	"context"
	"encoding/json"
	"fmt"
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
	// dataKey is the key of the report in the ConfigMap.
	dataKey = "hub-parts.json"
)

// Report is the state of all hub parts in the replica that leads.
type Report struct {
	// Written is when the report was written, Replica by which hub.
	Written metav1.Time `json:"written"`
	Replica string      `json:"replica"`
	// Parts has an entry for each module with a hub part.
	Parts []Part `json:"hubParts"`
}

// Part is the state of the hub part of one module.
type Part struct {
	Module string `json:"module"`
	State  string `json:"state"`
	// Reason and Message say why, when the hub part does not run as it should.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is when State or Reason last changed.
	Since metav1.Time `json:"since"`
}

// Rules are the permissions that the hub needs in the credentials namespace to write the report, beside that to
// create ConfigMaps.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{Name}, Verbs: []string{"update"}},
	}
}

// Read returns the report of the hub with this credentials namespace, or nil if there is none.
func Read(ctx context.Context, hub client.Reader, namespace string) (*Report, error) {
	var found corev1.ConfigMap
	err := hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, &found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	report := &Report{}
	if err := json.Unmarshal([]byte(found.Data[dataKey]), report); err != nil {
		return nil, fmt.Errorf("read %s in ConfigMap %s/%s: %w; delete it, and the hub writes it again", dataKey, namespace, Name, err)
	}
	return report, nil
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

// Age returns how old the report is, for people.
func (r *Report) Age() string { return duration.HumanDuration(max(0, time.Since(r.Written.Time))) }

// Old reports whether the hub should have written the report again: it may no longer be true.
func (r *Report) Old() bool { return time.Since(r.Written.Time) > 3*refresh }

// String returns the state and the reason.
func (p *Part) String() string {
	if p.State == state.ModuleRunning || p.Reason == "" || p.Reason == p.State {
		return p.State
	}
	return p.State + " (" + p.Reason + ")"
}
