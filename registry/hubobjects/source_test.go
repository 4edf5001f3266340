// SPDX-License-Identifier: Apache-2.0

package hubobjects

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// An equal selection with equal keys has the Objects that there are, every other has its own, and equal selections share an
// informer, whatever their routes are.
func TestSource_WatchTwice(t *testing.T) {
	t.Parallel()
	p := offline(t)
	a := newApp(t, p)
	of := configMaps("x", byTo)
	of.Namespaces = []string{"a", "b"}
	first := a.watch(t, of, "a", "b")
	again := of
	again.Namespaces = []string{"b", "a", "b"}
	if a.watch(t, again, "b", "a", "b") != first || a.sources != 1 {
		t.Errorf("%d sources for one selection", a.sources)
	}
	byName, other := of, of
	byName.Route, other.Route = ByName(), ByLabel("other")
	if a.watch(t, of, "a") == first || a.watch(t, byName, "a", "b") == first || a.watch(t, other, "a", "b") == first || a.sources != 4 {
		t.Errorf("%d sources for four selections", a.sources)
	}
	testkit.Equal(t, len(p.informers), 1, "informers of one selection")
	metadata, all := configMaps("x", All()), configMaps("x", All())
	metadata.Object, all.Labels = &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}, nil
	for i, one := range []Selection{configMaps("x", All()), configMaps("y", All()), metadata, all} {
		a.watch(t, one)
		testkit.Equal(t, len(p.informers), i+2, "informers")
	}
}

// A read that waits for the initial objects ends with the app, and says why the app has ended; so does every later one. Its objects
// are not absent, and nothing is left to take.
func TestObjects_EndWithTheApp(t *testing.T) {
	t.Parallel()
	a := newApp(t, offline(t))
	objects := a.watch(t, configMaps("x", ByName()), "a")
	l, key := objects.listen(), client.ObjectKey{Namespace: "default", Name: "a"}
	objects.informer.OnAdd(configMap("default", "a", "x", ""), true)
	reads := make(chan error, 2)
	read := func() {
		reads <- objects.Get(t.Context(), key, &corev1.ConfigMap{})
		reads <- objects.List(t.Context(), &corev1.ConfigMapList{})
	}
	go read()
	why := errors.New("the app is replaced")
	a.end(why)
	for range 2 {
		testkit.ErrorIs(t, <-reads, why)
	}
	close(objects.informer.synced)
	read()
	for range 2 {
		testkit.ErrorIs(t, <-reads, why, "with the initial objects")
	}
	if got := l.take(); len(got) != 0 {
		t.Errorf("the changes are %+v", got)
	}
	testkit.ErrorIs(t, testkit.Err(a.Watch(configMaps("x", All()))), why, "watch")
}

// byValue is an object that is no pointer.
type byValue struct{ *corev1.ConfigMap }

// Only what can work and is declared is watched, Secrets only with a label, and nothing in the namespace of the credentials.
func TestSource_Refuses(t *testing.T) {
	t.Parallel()
	p := offline(t)
	everywhere, limited, unknown := newApp(t, p), newApp(t, p), newApp(t, offline(t))
	errUndeclared := errors.New("undeclared")
	limited.binding.Namespaces = []string{"default", hidden}
	limited.binding.Refuses = func(_ []rbac.NamespacedRules, _ schema.GroupResource, namespace string) error {
		if slices.Contains(limited.binding.Namespaces, namespace) {
			return nil
		}
		return errUndeclared
	}
	unknown.pool.options.Hidden = ""
	none, err := metav1.LabelSelectorAsSelector(nil)
	must(t, err)
	without, err := labels.Parse("!of, other!=x, another notin (y)")
	must(t, err)
	label := labels.SelectorFromSet(labels.Set{"of": "test"})
	metadata := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
	config, secret, name, keys := &corev1.ConfigMap{}, &corev1.Secret{}, ByName(), []string{"x"}
	for what, c := range map[string]struct {
		app  *app
		of   Selection
		keys []string
		want error
	}{
		"no object":                 {everywhere, Selection{Route: name}, keys, errNoObject},
		"nil object":                {everywhere, Selection{Object: (*corev1.Pod)(nil), Route: name}, keys, errNoObject},
		"object by value":           {everywhere, Selection{Object: byValue{config}, Route: name}, keys, errNoObject},
		"no route":                  {everywhere, Selection{Object: config}, keys, errNoRoute},
		"route without a label":     {everywhere, Selection{Object: config, Route: ByLabel("")}, keys, errNoLabel},
		"all with a key":            {everywhere, Selection{Object: config, Route: All()}, keys, errNeedless},
		"no keys":                   {everywhere, Selection{Object: config, Route: name}, nil, errNoKeys},
		"empty key":                 {everywhere, Selection{Object: config, Route: name}, []string{"x", ""}, errNoKeys},
		"nothing":                   {everywhere, Selection{Object: config, Route: All(), Labels: labels.Nothing()}, nil, errNothing},
		"Secrets and nothing":       {everywhere, Selection{Object: secret, Route: name, Labels: none}, keys, errNothing},
		"namespace without a name":  {everywhere, Selection{Object: config, Route: All(), Namespaces: []string{""}}, nil, errUnnamed},
		"no namespaces":             {everywhere, Selection{Object: &corev1.Namespace{}, Route: ByNamespace()}, keys, errNamespace},
		"cluster-scoped":            {everywhere, Selection{Object: &corev1.Namespace{}, Route: name}, keys, nil},
		"all Secrets":               {everywhere, Selection{Object: secret, Route: name}, keys, errSecrets},
		"metadata of all Secrets":   {everywhere, Selection{Object: metadata, Route: name}, keys, errSecrets},
		"Secrets without a label":   {everywhere, Selection{Object: secret, Route: name, Labels: without}, keys, errSecrets},
		"Secrets with a label":      {everywhere, Selection{Object: secret, Route: name, Labels: label}, keys, nil},
		"credentials":               {everywhere, Selection{Object: config, Route: name, Namespaces: []string{hidden}}, keys, errHidden},
		"limited":                   {limited, Selection{Object: config, Route: name}, keys, nil},
		"limited, other namespace":  {limited, Selection{Object: config, Route: name, Namespaces: []string{"kube-system"}}, keys, errUndeclared},
		"limited, credentials":      {limited, Selection{Object: config, Route: name, Namespaces: []string{hidden}}, keys, errHidden},
		"limited, no namespaces":    {limited, Selection{Object: &corev1.Namespace{}, Route: name}, keys, errUndeclared},
		"unknown credentials":       {unknown, Selection{Object: secret, Route: name, Labels: label}, keys, errUnknown},
		"unknown credentials, open": {unknown, Selection{Object: config, Route: name}, keys, nil},
		"no module":                 {&app{Source: &Source{}}, Selection{Object: config, Route: name}, keys, errNoApp},
	} {
		if got := testkit.Err(c.app.Watch(c.of, c.keys...)); !errors.Is(got, c.want) {
			t.Errorf("%s: got %v, want %v", what, got, c.want)
		}
	}
	if got := limited.watch(t, configMaps("x", name), "x").informer.of.Namespaces; !slices.Equal(got, []string{"default"}) {
		t.Errorf("a limited module watches %v", got)
	}
	if !everywhere.IsHidden(hidden) || everywhere.IsHidden("other") || everywhere.IsHidden("") || unknown.IsHidden("") || (&Source{}).IsHidden("") {
		t.Error("IsHidden is wrong about a namespace")
	}
}

// A read that waits for the initial objects ends at the timeout.
func TestObjects_Timeout(t *testing.T) {
	t.Parallel()
	p := offline(t)
	p.options.Chain.Timeout = time.Millisecond
	o := watch(t, p, configMaps("x", All()))
	testkit.ErrorIs(t, o.Get(t.Context(), client.ObjectKey{Name: "x"}, &corev1.ConfigMap{}), context.DeadlineExceeded)
}
