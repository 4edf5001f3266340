// SPDX-License-Identifier: Apache-2.0

/*
Package observe turns the writes of an app into dry runs while its Cluster has the annotation clusterfx.dev/observe.

Middleware wraps the transport of an app. It parses each request (requestinfo.go), sends reads as they are and writes as dry
runs (dryrun.go), refuses what cannot be one, and reports each write with an event of the Cluster (objectname.go). Package
cluster installs it and reports in the status that the Cluster is observed: a hub must have both or none.
*/
package observe
