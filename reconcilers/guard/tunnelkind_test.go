// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"slices"

	"github.com/clusterfx/clusterfx/internal/testkit"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
)

// Tunnel is the kind of the tests.
type Tunnel struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   TunnelSpec   `json:"spec,omitzero"`
	Status TunnelStatus `json:"status,omitzero"`
}

type TunnelSpec struct {
	Company string `json:"company,omitempty"`
}

type TunnelStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Locks      []lock.State       `json:"locks,omitempty"`
	TunnelID   string             `json:"tunnelID,omitempty"`
	Hosts      []string           `json:"hosts,omitempty"`
}

func (t *Tunnel) DeepCopyObject() runtime.Object {
	c := *t
	t.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = slices.Clone(t.Status.Conditions)
	c.Status.Locks = slices.Clone(t.Status.Locks)
	for i := range t.Status.Locks {
		t.Status.Locks[i].DeepCopyInto(&c.Status.Locks[i])
	}
	c.Status.Hosts = slices.Clone(t.Status.Hosts)
	return &c
}

type TunnelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Tunnel `json:"items"`
}

func (l *TunnelList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Tunnel))
	}
	return &c
}

func conditions(t *Tunnel) *[]metav1.Condition { return &t.Status.Conditions }
func locks(t *Tunnel) *[]lock.State            { return &t.Status.Locks }

var tunnels = schema.GroupVersion{Group: "example.com", Version: "v1"}

func addTunnels(s *runtime.Scheme) error {
	s.AddKnownTypes(tunnels, &Tunnel{}, &TunnelList{})
	metav1.AddToGroupVersion(s, tunnels)
	return nil
}

var must = testkit.Must

// tunnelSchema is what controller-gen would generate from the types.
const tunnelSchema = `{type: object, properties: {
  spec: {type: object, properties: {company: {type: string}}},
  status: {type: object, properties: {
    tunnelID: {type: string}, hosts: {type: array, items: {type: string}}, conditions: ` + servertest.ConditionsSchema + `,
    locks: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [type], items: {
      type: object, required: [type], properties: {
        type: {type: string}, holder: {type: string}, ttlSeconds: {type: integer}, attempt: {type: integer},
        acquiredAt: {type: string, format: date-time}, renewedAt: {type: string, format: date-time},
        attemptID: {type: string}, runs: {type: integer}, intent: {type: string}, settled: {type: string},
        revision: {type: integer}}}}}}}}`
