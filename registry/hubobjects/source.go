// SPDX-License-Identifier: Apache-2.0

package hubobjects

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/rbac"
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
	// Permissions are in the place of the module's HubRules, for a watch that no declaration can know of, such as by a rule that users
	// write. The caller must ask the API server whether the hub has them. Default: HubRules.
	Permissions []rbac.NamespacedRules
	// Until ends the watch. Default: the end of the app.
	Until context.Context //nolint:containedctx // The life of the Objects.
	// Refused is called when the API server refuses to list or watch, or does not serve the kind. It must return at once. Default:
	// nothing is called.
	Refused func()
}

// Route tells the key of an object, and so its apps. Make one with ByNamespace, ByLabel, ByName or All.
type Route struct{ by, label string }

// ByNamespace routes an object by its namespace.
func ByNamespace() Route { return Route{by: "namespace"} }

// ByLabel routes an object by the value of a label. An object without the label belongs to no app.
func ByLabel(label string) Route { return Route{"label", label} }

// ByName routes an object by its name.
func ByName() Route { return Route{by: "name"} }

// All routes every selected object to every app that watches the selection. Watch is called without keys.
func All() Route { return Route{by: "all"} }

// keyOfAll is the key of all objects, and of all apps, with the route All.
const keyOfAll = "*"

// keyOf may be empty.
func (r Route) keyOf(obj client.Object) string {
	if obj == nil {
		return ""
	}
	switch r.by {
	case "namespace":
		return obj.GetNamespace()
	case "label":
		return obj.GetLabels()[r.label]
	case "name":
		return obj.GetName()
	case "all":
		return keyOfAll
	}
	return ""
}

// Has reports whether the route delivers an object to an app with these keys.
func (r Route) Has(obj client.Object, keys ...string) bool {
	return r == All() || slices.Contains(keys, r.keyOf(obj))
}

// Source gives a module of one app objects of the hub to watch; see Remote.HubObjects.
type Source struct {
	pool    *Pool
	binding Binding

	mu   sync.Mutex          // protects the field
	made map[string]*Objects // by selection, route and keys
}

// Binding connects a Source with its app and module.
type Binding struct {
	Context context.Context //nolint:containedctx // Objects outlive the calls that make them.
	// Refuses returns why the module may not watch a resource in a namespace of the hub, "" for all, by Selection.Permissions or,
	// without them, by what it declares. Namespaces limit the module's permissions.
	Refuses    func(by []rbac.NamespacedRules, resource schema.GroupResource, namespace string) error
	Namespaces []string
	// AddSource adds a source that must be current before the module deletes, until remove is called. Blocked receives why objects
	// cannot be listed, and must return at once.
	AddSource func(blind func(now time.Time) string) (remove func())
	Blocked   func(what string, why cache.Block)
	// Go runs a source in a goroutine of the app, if that has not ended. The context is that of the controller, which
	// waits for objects of a kind; what is as for Blocked. Call calls code of the module.
	Go   func(ctx context.Context, kind, what string, run func()) bool
	Call func(f func())
}

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
// is built, as in an invoke, or later with Until: the informer starts at once unless it runs, and ends after the last app with
// the same selection. An equal selection with equal keys returns the same Objects. It is an error if the module may not watch
// the selection.
//
// Watch may ask the hub's API server for the kinds of the group. It fails if that does not respond, and with an error
// that meta.IsNoMatchError recognizes if it does not serve the kind. A module that returns the error fails its app,
// which is built again later.
func (s *Source) Watch(of Selection, keys ...string) (*Objects, error) {
	if s.pool == nil {
		return nil, errNoApp
	}
	selected, err := s.resolve(of, keys)
	if err != nil {
		return nil, fmt.Errorf("watch objects of the hub: %w", err)
	}
	if err := context.Cause(s.binding.Context); err != nil {
		return nil, err
	}
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	name := fmt.Sprintf("%s by %s %q of %q", selected.name(), of.Route.by, of.Route.label, keys)
	s.mu.Lock()
	made := s.made[name]
	isNew := made == nil
	if isNew {
		if made, err = s.pool.subscribe(s, selected, keys); err == nil {
			s.made[name] = made
		}
	}
	if err == nil {
		made.watches++
	}
	s.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("watch objects of the hub: %w", err)
	}
	if isNew {
		made.unlisted = s.binding.AddSource(made.blind)
		context.AfterFunc(made.ctx, made.close)
	}
	made.ends(of, name)
	made.pass(cache.Block{})
	return made, nil
}

// ends ends the Objects with the last of their watches.
func (o *Objects) ends(of Selection, name string) {
	if of.Until == nil {
		return // with the app
	}
	stop := o.informer.follow(of.Refused)
	context.AfterFunc(of.Until, func() {
		stop()
		s := o.source
		s.mu.Lock()
		o.watches--
		last := o.watches == 0
		if last {
			delete(s.made, name)
		}
		s.mu.Unlock()
		if last {
			o.cancel()
		}
	})
}

// IsHidden reports whether a namespace has the credentials of remotes, where no module reads or writes for a remote.
func (s *Source) IsHidden(namespace string) bool {
	return s.pool != nil && s.pool.isHidden(namespace)
}

// resolved has an empty object in the form in which objects are kept, and the namespaces in order; none for all.
type resolved struct {
	Selection

	kind       schema.GroupVersionKind
	namespaced bool
}

// name is the same for equal selections, whatever their routes are, and only for these.
func (r resolved) name() string {
	text := fmt.Sprintf("%s as %T", r.kind, r.Object)
	if r.Labels != nil && !r.Labels.Empty() {
		text += " with " + r.Labels.String()
	}
	if len(r.Namespaces) > 0 {
		text += " in " + strings.Join(r.Namespaces, ",")
	}
	return text
}

func (s *Source) resolve(of Selection, keys []string) (r resolved, err error) {
	if err := check(of, keys); err != nil {
		return r, err
	}
	o := &s.pool.options
	if r.kind, err = apiutil.GVKForObject(of.Object, o.Scheme); err != nil {
		return r, err
	}
	if r.isSecrets() {
		if !AsksForLabel(of.Labels) {
			return r, errSecrets
		}
		if o.Hidden == "" {
			return r, errUnknown
		}
	}
	mapping, err := o.Place.Mapper.RESTMapping(r.kind.GroupKind(), r.kind.Version)
	if err != nil {
		return r, fmt.Errorf("find the kind in the hub: %w", err)
	}
	r.namespaced = mapping.Scope.Name() == meta.RESTScopeNameNamespace
	if !r.namespaced && (len(of.Namespaces) > 0 || of.Route == ByNamespace()) {
		return r, fmt.Errorf("%s: %w", r.kind.Kind, errNamespace)
	}
	r.Selection = of
	r.Object = reflect.New(reflect.TypeOf(of.Object).Elem()).Interface().(client.Object)
	r.Object.GetObjectKind().SetGroupVersionKind(r.kind)
	r.Namespaces, err = s.namespaces(mapping.Resource.GroupResource(), r.namespaced, of)
	return r, err
}

func (r resolved) isSecrets() bool { return r.kind.GroupKind() == schema.GroupKind{Kind: "Secret"} }

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

// AsksForLabel reports whether objects must have a label to be selected: nil selects all.
func AsksForLabel(s labels.Selector) bool {
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

// namespaces returns none for all. Without wanted ones they are those that the module may watch, without the hidden one;
// if it may watch nowhere, the error says so.
func (s *Source) namespaces(resource schema.GroupResource, namespaced bool, of Selection) ([]string, error) {
	b, wanted := &s.binding, of.Namespaces
	refuses := func(namespace string) error { return b.Refuses(of.Permissions, resource, namespace) }
	everywhere := refuses("")
	if len(wanted) == 0 && (everywhere == nil || !namespaced || len(b.Namespaces) == 0) {
		return nil, everywhere
	}
	if i := slices.IndexFunc(wanted, s.IsHidden); i >= 0 {
		return nil, fmt.Errorf("%w: %s", errHidden, wanted[i])
	}
	if len(wanted) == 0 {
		declared := slices.DeleteFunc(slices.Clone(b.Namespaces), s.IsHidden)
		if len(declared) == 0 {
			return nil, errHidden
		}
		wanted = slices.DeleteFunc(slices.Clone(declared), func(one string) bool { return refuses(one) != nil })
		if len(wanted) == 0 {
			return nil, refuses(declared[0])
		}
	}
	for _, namespace := range wanted {
		if err := refuses(namespace); err != nil {
			return nil, err
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(wanted))), nil
}
