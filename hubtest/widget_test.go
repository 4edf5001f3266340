// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"context"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry"
)

// widgetCRDs are files with the CRD of Widget.
var widgetCRDs = os.DirFS("testdata")

const widgetGroup = "hubtest.example.com"

// Widget is a kind that a module adds.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
}

// WidgetList is a list of Widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Widget `json:"items"`
}

func (w *Widget) DeepCopyObject() runtime.Object {
	c := &Widget{TypeMeta: w.TypeMeta}
	w.DeepCopyInto(&c.ObjectMeta)
	return c
}

func (l *WidgetList) DeepCopyObject() runtime.Object {
	c := &WidgetList{TypeMeta: l.TypeMeta}
	l.DeepCopyInto(&c.ListMeta)
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Widget))
	}
	return c
}

func addWidgets(s *runtime.Scheme) error {
	version := schema.GroupVersion{Group: widgetGroup, Version: "v1"}
	s.AddKnownTypes(version, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(s, version)
	return nil
}

func newWidget(name string) *Widget {
	return &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// polishAll labels every widget of a remote.
func polishAll(p registry.Remote) error {
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"polished":"yes"}}}`))
	r := reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
		w := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
		return ctrl.Result{}, p.Client.Patch(ctx, w, label)
	})
	return registry.ControllerManagedBy(p.Manager).Named("polish").For(&Widget{}).
		Complete(r)
}
