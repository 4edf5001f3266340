// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"slices"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
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

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(s))
	must(t, apiextensionsv1.AddToScheme(s))
	addWidgets(s)
	return s
}

func addWidgets(s *runtime.Scheme) {
	s.AddKnownTypes(widgets, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(s, widgets)
}

var must = testkit.Must

const widgetSchema = "{type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}, " +
	"status: {type: object, properties: {conditions: " + servertest.ConditionsSchema + "}}}}"
