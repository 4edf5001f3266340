// SPDX-License-Identifier: Apache-2.0

/*
Package inspect shows the state that a hub reports: its Clusters, their modules, and one Cluster in full.

# Usage

	list := inspect.Clusters{Hub: hub, Names: names, Selector: "region=eu", Status: "ready=false"}
	err := list.Print(ctx, inspect.Form{Format: format, Tables: tables}, os.Stdout)

# Considerations

The tables of Clusters come from the API server, which makes them of the columns in the CRD. The
package does not know the columns, so that kubectl and the hub never differ, and the hub of one version shows
the columns of another.

The package requests all Clusters in one request. A thousand of them as a table are a quarter of a megabyte; pages
would make columns of different widths. It requests whole objects only where it has to read
their fields, which is for a selector of the status.
*/
package inspect
