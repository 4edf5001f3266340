// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"regexp"
	"slices"

	"go.uber.org/fx"
)

// Module is a named part of the control plane: code that runs in the app of every remote, in
// the hub, or in both. Make one with NewModule.
type Module struct {
	name    string
	options ModuleOptions
}

// ModuleOptions say what a module consists of.
type ModuleOptions struct {
	// Description is one sentence for people who choose among modules.
	Description string
	// Remote goes into the app of every remote that runs the module. Its constructors and
	// invokes may ask for everything that Remote lists, and for nothing of another module.
	Remote fx.Option
	// Hub goes into the hub's App once.
	Hub fx.Option
}

// modulesGroup is the fx value group that collects the modules of a hub.
const modulesGroup = "clusterfx-modules"

// AsCleanup marks a constructor of a CleanupStep as one whose result is a step of its app. It goes into
// an fx.Provide in the remote part of a module. The constructor may ask for everything that Remote lists.
func AsCleanup(constructor any) any {
	return fx.Annotate(constructor, fx.ResultTags(`group:"clusterfx-cleanup"`))
}

var moduleName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}[a-z0-9]$`)

// NewModule returns a module. Its name stands in conditions, logs and metrics and in
// spec.modules of Cluster objects: a DNS label of 2 to 32 characters. A bad name is reported
// when the hub starts, with those of all modules.
func NewModule(name string, o ModuleOptions) Module {
	return Module{name: name, options: o}
}

// Name returns the module's name.
func (m Module) Name() string { return m.name }

// Description returns the sentence given in ModuleOptions.
func (m Module) Description() string { return m.options.Description }

// Option returns what adds the module to the hub's App: its hub part, and its membership in the
// group from which the registry takes the modules of every remote.
func (m Module) Option() fx.Option {
	parts := []fx.Option{fx.Supply(fx.Annotate(m, fx.ResultTags(`group:"`+modulesGroup+`"`)))}
	if m.options.Hub != nil {
		parts = append(parts, fx.Module(m.name, m.options.Hub))
	}
	return fx.Options(parts...)
}

// checkModules reports the first thing that is wrong with the set of modules: names, and every
// module's graph alone and together with the others. It builds nothing and contacts nobody.
func checkModules(modules []Module) error {
	seen := map[string]bool{}
	for _, m := range modules {
		if !moduleName.MatchString(m.name) {
			return fmt.Errorf("module %q: the name is not a DNS label of 2 to 32 characters", m.name)
		}
		if seen[m.name] {
			return fmt.Errorf("module %q is in the hub twice", m.name)
		}
		seen[m.name] = true
		if err := fx.ValidateApp(appOptions(&epoch{}, []Module{m})...); err != nil {
			return fmt.Errorf("module %q: %w", m.name, err)
		}
	}
	if err := fx.ValidateApp(appOptions(&epoch{}, modules)...); err != nil {
		return fmt.Errorf("the modules do not go together: %w", err)
	}
	return nil
}

// selectModules returns the modules of the hub that names asks for; nil asks for all.
func selectModules(all []Module, names []string) []Module {
	if names == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(m Module) bool { return !slices.Contains(names, m.name) })
}

// unknownModules returns the names that no module of the hub has, sorted.
func unknownModules(all []Module, names []string) []string {
	known := func(name string) bool {
		return slices.ContainsFunc(all, func(m Module) bool { return m.name == name })
	}
	unknown := slices.DeleteFunc(slices.Clone(names), known)
	slices.Sort(unknown)
	return slices.Compact(unknown)
}
