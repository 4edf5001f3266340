// SPDX-License-Identifier: Apache-2.0

/*
Package graph shows what an fx App consists of: which constructor of which module makes which types, and
which ones it needs. Nothing of the App runs for that.

# Usage

	g, err := graph.Of("hub", options)
	err = g.Write(os.Stdout, graph.Mermaid)

# How it works

fx tells what is provided, by which module and where, in events, which it sends while it takes in options.
It does not tell what a constructor needs; its graph in DOT does, and that has no modules and no names for
annotated constructors. So both are taken and put together by the types that a constructor makes.

fx sends the events before it invokes anything. The first thing that it invokes is ours, which keeps the
graph and fails on purpose. No constructor of the App is called, and no cluster is contacted.

Functions that are invoked are in neither of the two. Their names and modules are taken from what options
print of themselves, and what they need from the functions, which are found in the options by reflection: fx has no
other way to them. Where a version of fx keeps them elsewhere, they have no arrows, and a test fails.
*/
package graph
