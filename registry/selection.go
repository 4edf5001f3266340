// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/preflight"
	"github.com/clusterfx/clusterfx/registry/state"
)

// selection lists the modules that run in the app of a remote, and the modules that wait, with the reasons.
type selection struct {
	run        []choice
	waiting    []state.ModuleStatus // sorted by name
	authorized state.Condition      // whether the declared permissions are granted; zero if none are declared
	offered    offers               // the values that the hub parts shared at that moment
}

// choice is a module, as it is configured for one remote.
type choice struct {
	Module
	overrides []int   // which of the operator's overrides apply, in their order
	lives     []int64 // of the hub parts that share values that it needs
}

// remoteFacts are the facts about a remote from which its modules are selected.
type remoteFacts struct {
	version string
	found   *preflight.Result // nil before the first preflight
	offered offers            // by hub parts
}

// choose selects the modules for a remote from the desired state and the results of the preflight. It is a pure
// function.
func choose(all catalog, c *state.Desired, known remoteFacts) selection {
	found, offered := known.found, known.offered
	s := selection{offered: offered}
	var lacking []string
	asked := false
	for _, entry := range all {
		if !entry.wants(c) {
			continue
		}
		missing := found.MissingFor(entry.name)
		asked = asked || len(entry.options.Rules) > 0
		if len(missing) > 0 {
			lacking = append(lacking, "module "+entry.name+": "+strings.Join(missing, ", "))
		}
		reason, why := obstacle(entry.Module, known.version, found, missing)
		if why == "" {
			reason, why = offered.obstacle(entry.depends)
		}
		if why != "" {
			s.waiting = append(s.waiting, state.ModuleStatus{Name: entry.name, State: state.ModuleWaiting, Reason: reason, Message: state.Sanitize(why)})
			continue
		}
		s.run = append(s.run, choice{Module: entry.Module, overrides: entry.overridesFor(c.Labels), lives: offered.lives(entry.depends)})
	}
	slices.SortFunc(s.waiting, func(a, b state.ModuleStatus) int { return cmp.Compare(a.Name, b.Name) })
	if asked {
		s.authorized = authorized(lacking, found)
	}
	return s
}

// obstacle returns why a selected module cannot run, or empty strings.
func obstacle(m Module, version string, found *preflight.Result, missing []string) (reason, why string) {
	if why := m.options.Select.fits(version); why != "" {
		return state.ReasonVersionUnsupported, why
	}
	for _, kind := range m.options.Select.Requires {
		if !found.Serves(kind) {
			return state.ReasonAPIMissing, fmt.Sprintf("the remote does not serve %s of %s; it starts when the remote does",
				kind.Kind, kind.GroupVersion())
		}
	}
	if len(missing) > 0 {
		return state.ReasonRightsMissing, "the credentials lack: " + strings.Join(missing, ", ")
	}
	return "", ""
}

func authorized(lacking []string, found *preflight.Result) state.Condition {
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

// shape identifies the settings of a remote that only a new app can apply. Labels, annotations, the probe, the
// identity and the credential are not among them.
func (s selection) shape(c *state.Desired) string {
	var modules []string
	for _, one := range s.run {
		modules = append(modules, fmt.Sprintf("%s%v%v", one.name, one.overrides, one.lives))
	}
	namespaces := strings.Join(slices.Sorted(slices.Values(c.Namespaces)), ",")
	return fmt.Sprintf("%s|%s|%v|%s", modules, namespaces, c.Client, c.Owner.UID)
}

// questionsFor returns the questions to a remote whose results are needed to choose its modules, or nil for none.
func questionsFor(all catalog, c *state.Desired) *preflight.Questions {
	q := &preflight.Questions{Namespaces: c.Namespaces}
	for _, entry := range all {
		if !entry.wants(c) {
			continue
		}
		q.Kinds = append(q.Kinds, entry.options.Select.Requires...)
		if len(entry.options.Rules) > 0 {
			q.Rules = append(q.Rules, preflight.ModuleRules{Module: entry.name, Rules: entry.options.Rules})
		}
	}
	if len(q.Kinds) == 0 && len(q.Rules) == 0 {
		return nil
	}
	return q
}

// SelectModules returns the modules that a remote with these labels and names runs in its app: those that the names choose,
// or, without names, those whose Selector the labels match. What the remote is like is not considered.
func SelectModules(modules []Module, labels map[string]string, names []string) []Module {
	config := &state.Desired{Labels: labels}
	if len(names) > 0 {
		config.Modules = names
	}
	var selected []Module
	for _, m := range modules {
		if e := (entry{Module: m}); e.wants(config) {
			selected = append(selected, m)
		}
	}
	return selected
}
