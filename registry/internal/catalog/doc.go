// SPDX-License-Identifier: Apache-2.0

/*
Package catalog is the model of a hub's modules: which modules there are, how the operator configures them, and which of
them the app of a remote runs.

A Catalog is made in three steps when the hub starts. New checks each Module by itself: its name, its Selector, its
rules, its defaults. Configure adds the operator's configuration and returns every problem in it. Resolve checks with a
function of the caller that the graph of each module is complete, and finds the modules that depend on values which the
hub parts of others share. After that the Catalog does not change.

For a remote, Questions says what a preflight has to ask, and Select makes a Selection from the desired state and the
facts that are known: the modules that run, each as a Choice with its configuration, and the modules that wait, with the
reasons. Entry.RulesFor has the permissions that follow from the configuration there. All are pure functions, so an actor
may call them at any time, and compare the results by their Shape.

The package consists of values. It sends no request, starts no goroutine, and calls no code of a module but the
functions of a ConfigType, and Module.RulesOf once for each set of overrides. It does not know apps and hub parts: it
passes their fx options on without a look inside, and what a graph lacks it asks through a Check. The types that module
authors see are declared in package registry with their documentation, and converted: registry.NewModule makes a Module,
registry.Selector is a Selector.

Start with Catalog, and then Selection.
*/
package catalog
