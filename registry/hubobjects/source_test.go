// SPDX-License-Identifier: Apache-2.0

package hubobjects

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/hubwatch"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
)

// downHub is the transport of a hub that does not respond.
type downHub struct{}

func (downHub) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("the hub is down")
}

// newTestSource returns the Source of a module that may watch everything, and a function that ends its app.
func newTestSource(t *testing.T) (s *Source, sources *int, end context.CancelCauseFunc) {
	t.Helper()
	scheme := runtime.NewScheme()
	testkit.Must(t, clientgoscheme.AddToScheme(scheme))
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	pool := hubwatch.NewPool(t.Context(), hubwatch.Options{
		Hub: &rest.Config{Host: "https://192.0.2.1"}, Transport: downHub{}, Mapper: mapper, Scheme: scheme,
		Schemas: meter.NewSchemas(scheme), Log: logr.Discard(), Timeout: time.Hour,
	})
	ctx, end := context.WithCancelCause(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		end(nil)
		pool.Close()
	})
	sources = new(int)
	return New(Binding{
		Pool: pool, Context: ctx, Module: "test", Scheme: scheme, Mapper: mapper,
		Lacks:     func(schema.GroupResource, string) string { return "" },
		AddSource: func(func(time.Time) string) { *sources++ },
		Blocked:   func(string, cache.Block) {},
	}), sources, end
}

// An equal selection with equal keys has the Objects that there are, and every other has its own.
func TestSource_WatchTwice(t *testing.T) {
	t.Parallel()
	s, sources, _ := newTestSource(t)
	of := Selection{Object: &corev1.ConfigMap{}, Route: ByLabel("to")}
	watch := func(of Selection, keys ...string) *Objects {
		t.Helper()
		one, err := s.Watch(of, keys...)
		testkit.Must(t, err)
		return one
	}
	first := watch(of, "a", "b")
	if second := watch(of, "b", "a", "b"); second != first || *sources != 1 {
		t.Errorf("%d sources for one selection", *sources)
	}
	byName, other := of, of
	byName.Route, other.Route = ByName(), ByLabel("other")
	if watch(of, "a") == first || watch(byName, "a", "b") == first || watch(other, "a", "b") == first || *sources != 4 {
		t.Errorf("%d sources for four selections", *sources)
	}
}

// The Route All has no keys, and the other checks hold for it, too.
func TestSource_WatchAll(t *testing.T) {
	t.Parallel()
	s, sources, _ := newTestSource(t)
	of := Selection{Object: &corev1.ConfigMap{}, Route: All()}
	first, err := s.Watch(of)
	testkit.Must(t, err)
	if second, err := s.Watch(of); err != nil || second != first || *sources != 1 {
		t.Errorf("%d sources for one selection, %v", *sources, err)
	}
	testkit.ErrorIs(t, testkit.Err(s.Watch(of, "a")), errNeedless, "with a key")
	for want, change := range map[error]func(*Selection){
		errNothing: func(of *Selection) { of.Labels = labels.Nothing() },
		errUnnamed: func(of *Selection) { of.Namespaces = []string{""} },
		errNoRoute: func(of *Selection) { of.Route = Route{} },
	} {
		changed := of
		change(&changed)
		testkit.ErrorIs(t, testkit.Err(s.Watch(changed)), want)
	}
}

// A read that waits for the initial objects ends with the app, and says why the app has ended.
func TestObjects_EndWithTheApp(t *testing.T) {
	t.Parallel()
	s, _, end := newTestSource(t)
	objects, err := s.Watch(Selection{Object: &corev1.ConfigMap{}, Route: ByName()}, "a")
	testkit.Must(t, err)
	reads := make(chan error, 2)
	go func() { reads <- objects.Get(t.Context(), client.ObjectKey{Name: "a"}, &corev1.ConfigMap{}) }()
	go func() { reads <- objects.List(t.Context(), &corev1.ConfigMapList{}) }()
	why := errors.New("the app is replaced")
	end(why)
	for range 2 {
		testkit.ErrorIs(t, <-reads, why)
	}
}

// byValue is an object that is no pointer.
type byValue struct{ *corev1.ConfigMap }

// A selection that can never work is refused, and causes no panic.
func TestCheck(t *testing.T) {
	t.Parallel()
	for want, of := range map[error]Selection{
		errNoObject: {Object: byValue{&corev1.ConfigMap{}}, Route: ByName()},
		errUnnamed:  {Object: &corev1.ConfigMap{}, Route: ByName(), Namespaces: []string{"default", ""}},
	} {
		testkit.ErrorIs(t, check(of, []string{"x"}), want)
	}
}

// A selector of nothing has no text, and so would select every Secret of the hub.
func TestCheck_SelectorOfNothing(t *testing.T) {
	t.Parallel()
	none, err := metav1.LabelSelectorAsSelector(nil)
	testkit.Must(t, err)
	for _, selector := range []labels.Selector{none, labels.Nothing()} {
		if asksForLabel(selector) {
			t.Errorf("%T asks for a label", selector)
		}
		of := Selection{Object: &corev1.Secret{}, Route: ByName(), Labels: selector}
		testkit.ErrorIs(t, check(of, []string{"x"}), errNothing)
	}
	one := labels.SelectorFromSet(labels.Set{"of": "test"})
	if err := check(Selection{Object: &corev1.Secret{}, Route: ByName(), Labels: one}, []string{"x"}); err != nil || !asksForLabel(one) {
		t.Errorf("a selector of a label is refused: %v", err)
	}
}

// Only the namespace of the credentials is hidden, and none if it is not known.
func TestSource_IsHidden(t *testing.T) {
	t.Parallel()
	hides, knowsNone := New(Binding{Hidden: "secret"}), New(Binding{})
	if !hides.IsHidden("secret") || hides.IsHidden("other") || hides.IsHidden("") || knowsNone.IsHidden("") {
		t.Error("IsHidden is wrong about a namespace")
	}
}
