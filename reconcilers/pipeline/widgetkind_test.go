// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"slices"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Widget is the kind of the tests.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   WidgetSpec   `json:"spec,omitzero"`
	Status WidgetStatus `json:"status,omitzero"`
}

type WidgetSpec struct {
	Size int `json:"size,omitempty"`
}

type WidgetStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

func (w *Widget) DeepCopyObject() runtime.Object {
	c := *w
	w.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = slices.Clone(w.Status.Conditions)
	return &c
}

type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Widget `json:"items"`
}

func (l *WidgetList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Widget))
	}
	return &c
}

var widgets = schema.GroupVersion{Group: "example.com", Version: "v1"}

func conditions(w *Widget) []metav1.Condition { return w.Status.Conditions }

func addWidgets(s *runtime.Scheme) error {
	s.AddKnownTypes(widgets, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(s, widgets)
	return nil
}

var must = testkit.Must

const widgetSchema = "{type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}, " +
	"status: {type: object, properties: {conditions: " + servertest.ConditionsSchema + "}}}}"
