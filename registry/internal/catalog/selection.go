// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Selection lists the modules that run in the app of a remote, and the modules that wait, with the reasons.
type Selection struct {
	Run        []Choice
	Waiting    []state.ModuleStatus // sorted by name
	Authorized state.Condition      // whether the declared permissions are granted; zero if none are declared
	Offered    Offers               // the values that the hub parts shared at that moment
}

// Choice is a module, as it is configured for one remote.
type Choice struct {
	Module
	layers    []json.RawMessage // the configuration
	overrides []int             // which of the operator's overrides apply, in their order
	lives     []int64           // of the hub parts that share values that it needs
	known     *lru.Cache
}

// Filters returns the cache filters of the module in the app of the remote.
func (c Choice) Filters() []cache.Filter { return c.filters(c.layers) }

// Filters returns the cache filters of every module, by its name, for an app that runs the chosen ones. A module that does not run
// has its configuration without overrides, as its hub part has.
func (all Catalog) Filters(chosen []Choice) map[string][]cache.Filter {
	filters := map[string][]cache.Filter{}
	for _, one := range chosen {
		filters[one.Name] = one.Filters()
	}
	for i := range all {
		if _, runs := filters[all[i].Name]; !runs {
			filters[all[i].Name] = all[i].Plain().Filters()
		}
	}
	return filters
}

// Facts are known about a remote and the hub when modules are selected.
type Facts struct {
	Version   string                   // of Kubernetes, that the remote reports
	Preflight *machine.PreflightResult // nil before the first preflight
	Offered   Offers                   // by hub parts
}

// Wanted returns the modules that the operator selects, in the order of the catalog. The remote decides which of them
// run.
func (all Catalog) Wanted(c *state.Desired) []string {
	var names []string
	for i := range all {
		if all[i].Wants(c) {
			names = append(names, all[i].Name)
		}
	}
	return names
}

// Select selects the modules for a remote from the desired state and the facts. It is a pure function.
func (all Catalog) Select(c *state.Desired, known Facts) Selection {
	s := Selection{Offered: known.Offered}
	var lacking []string
	asked := false
	for i := range all {
		e := &all[i]
		if !e.Wants(c) {
			continue
		}
		missing := known.Preflight.MissingFor(e.Name)
		asked = asked || len(e.rulesFor(c.Labels)) > 0
		if len(missing) > 0 {
			lacking = append(lacking, "module "+e.Name+": "+strings.Join(missing, ", "))
		}
		reason, why := e.obstacle(known, missing)
		if why != "" {
			s.Waiting = append(s.Waiting, state.ModuleStatus{Name: e.Name, State: state.ModuleWaiting, Reason: reason, Message: state.Sanitize(why)})
			continue
		}
		one := e.with(e.overridesFor(c.Labels))
		one.lives = known.Offered.lives(e.depends)
		s.Run = append(s.Run, one)
	}
	slices.SortFunc(s.Waiting, func(a, b state.ModuleStatus) int { return cmp.Compare(a.Name, b.Name) })
	if asked {
		s.Authorized = authorized(lacking, known.Preflight)
	}
	return s
}

// obstacle returns empty strings if the module can run. missing are declared permissions that the credentials lack.
func (e *Item) obstacle(known Facts, missing []string) (reason, why string) {
	if why := e.Select.fits(known.Version); why != "" {
		return state.ReasonVersionUnsupported, why
	}
	for _, kind := range e.Select.Requires {
		if !known.Preflight.Serves(kind) {
			return state.ReasonAPIMissing, fmt.Sprintf("the remote does not serve %s of %s; it starts when the remote does",
				kind.Kind, kind.GroupVersion())
		}
	}
	if len(missing) > 0 {
		return state.ReasonRightsMissing, "the credentials lack: " + strings.Join(missing, ", ")
	}
	return known.Offered.obstacle(e.depends)
}

func authorized(lacking []string, found *machine.PreflightResult) state.Condition {
	switch {
	case len(lacking) > 0:
		return state.Condition{Status: metav1.ConditionFalse, Reason: state.ReasonRightsMissing, Message: state.Sanitize("the credentials lack permissions: " + strings.Join(lacking, "; "))}
	case found == nil:
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonPending, Message: "the permissions have not been checked yet"}
	case found.Unknown != "":
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonPending, Message: state.Sanitize("the remote does not report the permissions of the credentials: " + found.Unknown)}
	}
	return state.Condition{Status: metav1.ConditionTrue, Reason: state.ReasonAllowed, Message: "all permissions that the modules declare are granted"}
}

// Names returns the names of the modules that run.
func (s Selection) Names() []string {
	var names []string
	for _, one := range s.Run {
		names = append(names, one.Name)
	}
	return names
}

// Shape identifies the settings that only a new app can apply: not labels, annotations, probe, identity or credential.
func (s Selection) Shape(c *state.Desired) string {
	var modules []string
	for _, one := range s.Run {
		modules = append(modules, fmt.Sprintf("%s%v%v", one.Name, one.overrides, one.lives))
	}
	namespaces := strings.Join(slices.Sorted(slices.Values(c.Namespaces)), ",")
	return fmt.Sprintf("%s|%s|%v|%s", modules, namespaces, c.Client, c.Owner.UID)
}

// Questions returns what a preflight asks to select the modules of a remote, or nil.
func (all Catalog) Questions(c *state.Desired) *machine.Questions {
	q := &machine.Questions{Namespaces: c.Namespaces}
	for i := range all {
		e := &all[i]
		if !e.Wants(c) {
			continue
		}
		q.Kinds = append(q.Kinds, e.Select.Requires...)
		if rules := e.rulesFor(c.Labels); len(rules) > 0 {
			q.Rules = append(q.Rules, machine.ModuleRules{Module: e.Name, Rules: rules})
		}
	}
	if len(q.Kinds) == 0 && len(q.Rules) == 0 {
		return nil
	}
	return q
}
