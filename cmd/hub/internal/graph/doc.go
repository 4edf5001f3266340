// SPDX-License-Identifier: Apache-2.0

/*
Package graph writes the dependency graph of an fx App in DOT or for Mermaid: the constructors of each module,
and the types that they make and need. It calls none of them.

	g, err := graph.Of("hub", options)
	_, err = io.WriteString(os.Stdout, g.Text(graph.Mermaid()))

fx tells the module of each constructor in an event, and what a constructor needs in fx.DotGraph. This package joins both
by the types that a constructor makes. fx does not tell what invoked functions need, so they are not in it.
*/
package graph
