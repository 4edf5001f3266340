// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

// Mistakes that are detectable when a pipeline is built are reported then.
func TestInvalidConfig(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	good := every(&part{name: "p", journal: &servertest.Journal{}})
	newRouter := func(change func(*pipeline.Set[*Widget])) error {
		set := good
		change(&set)
		_, err := pipeline.NewRouter(set)
		return err
	}
	newReconciler := func(o pipeline.Options[*Widget]) error {
		_, err := pipeline.NewReconciler(s, router(t, good), o)
		return err
	}
	newCRUD := func(m *machine, order pipeline.Order) error {
		_, err := pipeline.NewCRUDResource(m, order)
		return err
	}
	for sentence, err := range map[string]error{
		"a set without a name":       newRouter(func(set *pipeline.Set[*Widget]) { set.Name = "" }),
		"a set for no object":        newRouter(func(set *pipeline.Set[*Widget]) { set.Handles = nil }),
		"a set without resources":    newRouter(func(set *pipeline.Set[*Widget]) { set.Resources = nil }),
		"a resource that is nil":     newRouter(func(set *pipeline.Set[*Widget]) { set.Resources = make([]pipeline.Resource[*Widget], 1) }),
		"a resource without a name":  newRouter(func(set *pipeline.Set[*Widget]) { set.Resources = []pipeline.Resource[*Widget]{&part{}} }),
		"two resources of one name":  newRouter(func(set *pipeline.Set[*Widget]) { set.Resources = append(set.Resources, &part{name: "p"}) }),
		"no client":                  failure(pipeline.NewReconciler(nil, router(t, good), named(pipeline.Options[*Widget]{}))),
		"no wrapper":                 failure(pipeline.WithWrapper(good.Resources, nil)),
		"a router without sets":      failure(pipeline.NewRouter[*Widget]()),
		"two sets of one name":       failure(pipeline.NewRouter(good, good)),
		"a pipeline without a name":  newReconciler(pipeline.Options[*Widget]{}),
		"a name that is no label":    newReconciler(pipeline.Options[*Widget]{Name: "A/b"}),
		"a negative resync":          newReconciler(pipeline.Options[*Widget]{Name: name, Resync: -time.Second}),
		"a negative timeout":         newReconciler(pipeline.Options[*Widget]{Name: name, ControllerOptions: pipeline.ControllerOptions{Timeout: -time.Second}}),
		"no router":                  failure(pipeline.NewReconciler(s, nil, pipeline.Options[*Widget]{Name: name})),
		"an unknown kind":            strange[*unknown](s),
		"a type that is not one":     strange[client.Object](s),
		"objects without a type":     strange[*unstructured.Unstructured](s),
		"objects in part":            strange[*metav1.PartialObjectMetadata](s),
		"a CRUD resource of nothing": failure(pipeline.NewCRUDResource[*Widget, int, string](nil, 0)),
		"a CRUD resource, no name":   newCRUD(&machine{}, 0),
		"an order that is none":      newCRUD(&machine{name: "m"}, 2),
	} {
		testkit.ErrorIs(t, err, pipeline.ErrInvalidConfig, sentence)
	}
}

// Unstructured objects are refused: functions on an object find its fields by its Go type.
func TestInvalidConfig_UnstructuredObjects(t *testing.T) {
	t.Parallel()
	err := strange[*unstructured.Unstructured](newServer(t))
	testkit.ErrorHas(t, err, "write a Go type")
}

type unknown struct{ corev1.ConfigMap }

func failure[T any](_ T, err error) error { return err }

// strange builds a pipeline for objects of another type.
func strange[O client.Object](s *server) error {
	s.T.Helper()
	r, err := pipeline.NewRouter(pipeline.Set[O]{
		Name: "set", Handles: func(O) bool { return true }, Resources: []pipeline.Resource[O]{anything[O]{}},
	})
	must(s.T, err)
	return failure(pipeline.NewReconciler(s, r, pipeline.Options[O]{Name: name}))
}

type anything[O client.Object] struct{}

func (anything[O]) Name() string                           { return "anything" }
func (anything[O]) EnsureCreated(context.Context, O) error { return nil }
func (anything[O]) EnsureDeleted(context.Context, O) error { return nil }

func TestRouter(t *testing.T) {
	t.Parallel()
	rs := []pipeline.Resource[*Widget]{&part{name: "p", journal: &servertest.Journal{}}}
	asked := 0
	r := router(
		t,
		pipeline.Set[*Widget]{Name: "small", Handles: func(w *Widget) bool { asked++; return w.Spec.Size < 10 }, Resources: rs},
		pipeline.Set[*Widget]{Name: "large", Handles: func(w *Widget) bool { asked++; return w.Spec.Size > 5 }, Resources: rs},
		pipeline.Set[*Widget]{
			Name: "odd", Labels: map[string]string{"odd": ""}, Resources: rs,
			Handles: func(w *Widget) bool { return w.Spec.Size%2 == 1 },
		},
	)
	rs[0] = nil // The router has its own copy.
	for size, want := range map[int]string{1: "small", 20: "large"} {
		asked = 0
		set, err := r.Route(&Widget{Spec: WidgetSpec{Size: size}})
		if err != nil || set.Name != want || asked != 2 || set.Resources[0] == nil {
			t.Errorf("size %d: got set %v, error %v, %d calls of Handles", size, set, err, asked)
		}
	}
	odd := &Widget{Spec: WidgetSpec{Size: 11}}
	if set, err := r.Route(odd); err != nil || set.Name != "large" {
		t.Errorf("without the label: got set %v, error %v", set, err)
	}
	odd.Labels = map[string]string{"odd": ""}
	set, err := r.Route(odd)
	if !errors.Is(err, pipeline.ErrAmbiguousResourceSet) || !errors.Is(err, pipeline.ErrExecutionFailed) || set != nil {
		t.Errorf("with two sets: got set %v, error %v", set, err)
	}
	only := router(t, pipeline.Set[*Widget]{Name: "l", Labels: map[string]string{"l": "1"}, Resources: set1()})
	testkit.ErrorIs(t, testkit.Err(only.Route(odd)), pipeline.ErrNoResourceSet, "without a set")
}

func set1() []pipeline.Resource[*Widget] {
	return []pipeline.Resource[*Widget]{&part{name: "p", journal: &servertest.Journal{}}}
}
