// SPDX-License-Identifier: Apache-2.0

/*
Package catalog is the model of a hub's modules: which there are, how the operator configures them, and which of them
a remote runs.

New checks each Module by itself, Configure adds the operator's configuration, and Resolve checks the graphs and finds
the modules that depend on values of hub parts. After that the Catalog does not change. Questions says what a
preflight has to ask a remote, Select which modules run there, each as a Choice, and which wait and why. All are pure
functions; an actor compares their results by Shape.

The package sends no request, starts no goroutine, and calls no code of a module but a ConfigType's and
Module.RulesOf. It passes fx options on without a look inside. The types for module authors are in package registry.
Start with Catalog, then Selection.
*/
package catalog
