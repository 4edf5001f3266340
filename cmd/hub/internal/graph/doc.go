// SPDX-License-Identifier: Apache-2.0

/*
Package graph writes the dependency graph of an fx App in DOT or for Mermaid: the constructors of each module, the
types that they make and need, and the functions that the App invokes. It calls none of them.

	g, err := graph.Of("hub", options)
	_, err = io.WriteString(os.Stdout, g.Text(graph.Mermaid()))

fx tells the module of each constructor in an event, and what a constructor needs in fx.DotGraph. This package joins both
by the types that a constructor makes. fx prints the names of invoked functions and not their parameters, so these
functions have no arrows.
*/
package graph
