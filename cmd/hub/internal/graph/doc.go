// SPDX-License-Identifier: Apache-2.0

/*
Package graph shows the dependency graph of an fx App: the constructors of each module, the types that they
make, and the types that they need. It runs nothing of the App.

# Usage

	g, err := graph.Of("hub", options)
	err = g.Write(os.Stdout, graph.Mermaid)

# How it works

fx reports each provided constructor, with its module and its location, in an event while it reads the options.
The events do not contain the parameters of a constructor; the graph that fx writes in DOT does, but it has no
modules and no names for annotated constructors. So this package reads both and joins them by the types that a
constructor makes.

fx sends the events before it invokes anything. The first invoked function belongs to this package: it keeps the
graph and fails on purpose. No constructor of the App is called, and no cluster is contacted.

Invoked functions are in neither of the two sources. Their names and modules are parsed from the text that options
print of themselves. Their parameters come from the functions, which this package finds in the options by
reflection, because fx has no accessor for them. If a version of fx stores them elsewhere, the invoked functions
have no arrows, and a test fails.
*/
package graph
