// SPDX-License-Identifier: Apache-2.0

/*
Package side has the kinds of clusters between which package syncer keeps objects in step, behind one type. A Side lends
access to its cluster for one call, and opens Views: objects of one kind, with the requests that their events cause.

	side       cluster                                              reads from
	InProcess  any cluster.Cluster that runs in the process         its cache
	OfRemote   the remote of an app                                 its cache
	OfHub      the hub, as an app reaches it                        the informer that all apps share
	Live       any cluster that a tool has a client for             its API server
*/
package side
