// SPDX-License-Identifier: Apache-2.0

/*
Package observe turns the writes of an app into dry runs while its Cluster has the annotation clusterfx.dev/observe.

Middleware wraps the transport of an app. It parses each request (requestinfo.go), sends reads as they are, turns writes
into dry runs (dryrun.go), refuses requests that cannot be dry runs, and reports each write with an event of the Cluster
that names the object (objectname.go).

Package cluster installs it, because the same package reports in status that the Cluster is observed: a hub must not
have one without the other. Nothing in this package depends on the state of a remote, so that the rule that nothing is
written can be read, and tested, by itself.
*/
package observe
