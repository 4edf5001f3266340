// SPDX-License-Identifier: Apache-2.0

/*
Package prefetch sends the first lists of an app ahead: while the hub still asks which cluster a remote is and which kinds it
serves. Over a slow network the app then finds the responses where it would have begun to wait.

Lists are the lists that the caches of an app sent while it started. The next app on the same endpoint, which most often runs the
same modules, sends the same. Ahead sends them and keeps the responses, unread, until a cache sends the same request; everything
that judges and limits a response does so then. A live read of a module never gets one. A response that the app does not take, or
that is not 200 OK, is dropped, and so are all of them when a client of the app sends a request before, when they are older than ten
seconds, and when the remote turns out to be another cluster.

A server whose identity is not known could make the hub keep what the window of an HTTP/2 stream permits, 4 MiB, for each list. So
an Ahead has four lists at most, and a Pool limits how many connections have one at the same time. When a fleet starts, apps wait for
their turn, and not for the network: most of them send nothing ahead.
*/
package prefetch
