// SPDX-License-Identifier: Apache-2.0

package hubobjects

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/hubwatch"
)

// Selection selects objects of a kind in the hub, the same in all apps, and says which app each belongs to.
type Selection struct {
	// Object is an empty object of the kind: typed, unstructured, or a *metav1.PartialObjectMetadata with its kind, for
	// the metadata alone. Required.
	Object client.Object
	// Labels select objects. Default: all; Secrets require a selector that asks for a label.
	Labels labels.Selector
	// Namespaces select objects. Default: those in which the HubRules, and the permissions that follow from the
	// configuration, allow the module to watch the kind.
	Namespaces []string
	Route      Route
}

// Route tells the key of an object, and so its apps. Make one with ByNamespace, ByLabel, ByName or All.
type Route struct{ inner hubwatch.Route }

// ByNamespace routes an object by its namespace.
func ByNamespace() Route { return Route{hubwatch.Route{By: hubwatch.ByNamespace}} }

// ByLabel routes an object by the value of a label. An object without the label belongs to no app.
func ByLabel(label string) Route {
	return Route{hubwatch.Route{By: hubwatch.ByLabel, Label: label}}
}

// ByName routes an object by its name.
func ByName() Route { return Route{hubwatch.Route{By: hubwatch.ByName}} }

// All routes every selected object to every app that watches the selection. Watch is called without keys.
func All() Route { return Route{hubwatch.Route{By: hubwatch.All}} }

// Has reports whether the route delivers an object to an app with these keys.
func (r Route) Has(obj client.Object, keys ...string) bool { return r.inner.Has(obj, keys) }

// Source gives a module of one app objects of the hub to watch; see Remote.HubObjects.
type Source struct {
	binding Binding

	mu   sync.Mutex          // protects the field
	made map[string]*Objects // by selection, route and keys
}

// Binding connects a Source with its app and module. Only the registry can make one.
type Binding struct {
	Pool    *hubwatch.Pool
	Context context.Context //nolint:containedctx // Subscriptions outlive the calls that make them.
	Module  string
	Guard   *contain.Container
	Scheme  *runtime.Scheme
	Mapper  meta.RESTMapper
	// Lacks returns the undeclared permission to watch a resource in a namespace of the hub, or "". Namespaces limit
	// the module's permissions.
	Lacks      func(resource schema.GroupResource, namespace string) string
	Namespaces []string
	// Hidden is the namespace of the credentials; may be empty.
	Hidden string
	// AddSource adds a source that must be current before the module deletes. Go runs a function in a goroutine of the
	// app, if that has not ended. Blocked receives why objects cannot be listed.
	AddSource func(blind func(now time.Time) string)
	Go        func(func()) bool
	Blocked   func(what string, why cache.Block)
}

// New returns the Source of a module in an app.
func New(b Binding) *Source { return &Source{binding: b, made: map[string]*Objects{}} }

var (
	errNoApp     = errors.New("the Source belongs to no module; ask for Remote.HubObjects in the remote part of a module")
	errNoObject  = errors.New("the selection has no Object: set a pointer to an empty object of the kind")
	errNoRoute   = errors.New("the selection has no Route")
	errNothing   = errors.New("the selection has Labels that select nothing; leave Labels out to select all objects")
	errNoKeys    = errors.New("there are no keys, or an empty one, so that no object could belong to the app")
	errNeedless  = errors.New("the Route All has no keys; leave them out to watch all selected objects, or choose another Route")
	errNoLabel   = errors.New("the Route by a label has no label")
	errSecrets   = errors.New("a selection of Secrets requires Labels with a label that the Secrets must have")
	errUnknown   = errors.New("secrets of the hub cannot be watched in a registry without Options.CredentialsNamespace")
	errHidden    = errors.New("objects in the namespace of the credentials of remotes cannot be watched")
	errUnnamed   = errors.New("the selection has a namespace without a name; leave Namespaces out for all of them")
	errNamespace = errors.New("the kind has no namespaces; leave Namespaces out, and do not route by namespace")
)

// Watch returns the objects of some keys; with the Route All all selected objects, without keys. Call it while the app
// is built, as in an invoke: the informer starts at once unless it runs, and ends after the last app with the same
// selection. An equal selection with equal keys returns the same Objects. It is an error if the module may not watch
// the selection.
//
// Watch may ask the hub's API server for the kinds of the group. It fails if that does not respond, and with an error
// that meta.IsNoMatchError recognizes if it does not serve the kind. A module that returns the error fails its app,
// which is built again later.
func (s *Source) Watch(of Selection, keys ...string) (*Objects, error) {
	if s.binding.Pool == nil {
		return nil, errNoApp
	}
	selected, err := s.resolve(of, keys)
	if err != nil {
		return nil, fmt.Errorf("watch objects of the hub: %w", err)
	}
	b := &s.binding
	if b.Context.Err() != nil {
		return nil, context.Cause(b.Context)
	}
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	name := fmt.Sprintf("%s by %d %q of %q", selected.Name(), of.Route.inner.By, of.Route.inner.Label, keys)
	if one := s.known(name); one != nil {
		return one, nil
	}
	inner, err := b.Pool.Subscribe(selected, hubwatch.Want{Route: of.Route.inner, Keys: keys, Blocked: b.Blocked})
	if err != nil {
		return nil, fmt.Errorf("watch objects of the hub: %w", err)
	}
	made := &Objects{inner: inner, binding: b, kind: selected.Kind.GroupKind().String() + " of the hub"}
	if one := s.keep(name, made); one != made {
		inner.Close()
		return one, nil
	}
	context.AfterFunc(b.Context, inner.Close)
	b.AddSource(inner.Blind)
	return made, nil
}

// IsHidden reports whether a namespace has the credentials of remotes, where no module reads or writes for a remote.
func (s *Source) IsHidden(namespace string) bool {
	return s.binding.Hidden != "" && namespace == s.binding.Hidden
}

func (s *Source) known(name string) *Objects {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[name]
}

func (s *Source) keep(name string, made *Objects) *Objects {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made[name] == nil {
		s.made[name] = made
	}
	return s.made[name]
}

func (s *Source) resolve(of Selection, keys []string) (hubwatch.Selection, error) {
	if err := check(of, keys); err != nil {
		return hubwatch.Selection{}, err
	}
	b := &s.binding
	kind, err := apiutil.GVKForObject(of.Object, b.Scheme)
	if err != nil {
		return hubwatch.Selection{}, err
	}
	if kind.GroupKind() == (schema.GroupKind{Kind: "Secret"}) {
		if !asksForLabel(of.Labels) {
			return hubwatch.Selection{}, errSecrets
		}
		if b.Hidden == "" {
			return hubwatch.Selection{}, errUnknown
		}
	}
	mapping, err := b.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return hubwatch.Selection{}, fmt.Errorf("find the kind in the hub: %w", err)
	}
	namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	if !namespaced && (len(of.Namespaces) > 0 || of.Route == ByNamespace()) {
		return hubwatch.Selection{}, fmt.Errorf("%s: %w", kind.Kind, errNamespace)
	}
	namespaces, err := s.namespaces(mapping.Resource.GroupResource(), namespaced, of.Namespaces)
	if err != nil {
		return hubwatch.Selection{}, err
	}
	return hubwatch.Selection{
		Object: emptyOf(of.Object, kind), Kind: kind, Namespaced: namespaced, Namespaces: namespaces, Labels: of.Labels,
	}, nil
}

// check reports what shows without the hub.
func check(of Selection, keys []string) error {
	switch {
	case of.Object == nil, reflect.ValueOf(of.Object).Kind() != reflect.Pointer, reflect.ValueOf(of.Object).IsNil():
		return errNoObject
	case of.Route == Route{}:
		return errNoRoute
	case of.Route == ByLabel(""):
		return errNoLabel
	case of.Route == All() && len(keys) > 0:
		return errNeedless
	case of.Route != All() && (len(keys) == 0 || slices.Contains(keys, "")):
		return errNoKeys
	case slices.Contains(of.Namespaces, ""):
		return errUnnamed
	case of.Labels != nil:
		// Such a selector has no text, and an API server that is sent no text selects everything.
		if _, selectable := of.Labels.Requirements(); !selectable {
			return errNothing
		}
	}
	return nil
}

func asksForLabel(s labels.Selector) bool {
	if s == nil {
		return false
	}
	all, selectable := s.Requirements()
	return selectable && slices.ContainsFunc(all, func(r labels.Requirement) bool {
		switch r.Operator() {
		case selection.NotEquals, selection.NotIn, selection.DoesNotExist:
			return false
		}
		return true
	})
}

// namespaces returns none for all, or an error that names the undeclared permission.
func (s *Source) namespaces(resource schema.GroupResource, namespaced bool, wanted []string) ([]string, error) {
	b := &s.binding
	everywhere := b.Lacks(resource, "")
	if len(wanted) == 0 && (everywhere == "" || !namespaced || len(b.Namespaces) == 0) {
		return nil, b.missing(everywhere)
	}
	if b.Hidden != "" && slices.Contains(wanted, b.Hidden) {
		return nil, fmt.Errorf("%w: %s", errHidden, b.Hidden)
	}
	if len(wanted) == 0 {
		if wanted = b.namespacesOf(resource); len(wanted) == 0 {
			return nil, errHidden
		}
	}
	for _, namespace := range wanted {
		if err := b.missing(b.Lacks(resource, namespace)); err != nil {
			return nil, err
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(wanted))), nil
}

// namespacesOf leaves out the hidden namespace. If the module may watch nowhere, it returns all of the module's: the
// permission is missing there.
func (b *Binding) namespacesOf(resource schema.GroupResource) []string {
	all := slices.DeleteFunc(slices.Clone(b.Namespaces), func(one string) bool { return one == b.Hidden })
	allowed := slices.DeleteFunc(slices.Clone(all), func(one string) bool { return b.Lacks(resource, one) != "" })
	if len(allowed) == 0 {
		return all
	}
	return allowed
}

func (b *Binding) missing(permission string) error {
	if permission == "" {
		return nil
	}
	return fmt.Errorf("module %s does not declare the permission to %s in the hub; add it to its HubRules, or to those of RulesOf", b.Module, permission)
}

func emptyOf(obj client.Object, kind schema.GroupVersionKind) client.Object {
	var empty client.Object
	switch obj.(type) {
	case *metav1.PartialObjectMetadata:
		empty = &metav1.PartialObjectMetadata{}
	case *unstructured.Unstructured:
		empty = &unstructured.Unstructured{}
	default:
		empty = reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	}
	empty.GetObjectKind().SetGroupVersionKind(kind)
	return empty
}
