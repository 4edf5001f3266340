// SPDX-License-Identifier: Apache-2.0

/*
Package appmanager has the manager of an App: a manager.Manager with a goroutine for each runnable that runs, and no other
goroutine.

The manager of controller-runtime has more: each of its six groups of runnables has a goroutine that waits for the next
runnable, and it makes a second recorder of events. A process with one manager does not notice. A hub has one for each
remote.

A Manager does for its runnables what controller-runtime documents, for a manager without leader election. Start runs
in the goroutine of its caller, and starts the runnables in these steps:

 1. servers (manager.Server) and webhook servers;
 2. the cluster and all other runnables with a GetCache method, until their caches have synced;
 3. runnables that need no leader election;
 4. the Warmup of all controllers, without waiting for its end;
 5. all other runnables. Then the channel of Elected is closed.

A runnable that is added before the turn of its step starts with the step, a later one at once.

The first error of a runnable ends the manager, and Start returns the error; so does the end of the context of Start,
with nil. Start then refuses further runnables, ends the steps in an order in which no runnable loses what it uses, and
returns when all runnables have returned, however long that takes:

 1. runnables that need no leader election, together with each Warmup: a controller takes its lock in both;
 2. the runnables that do, whose objects are in the caches until then;
 3. the caches, and with the cluster the recorder of events;
 4. webhook servers, then servers.

It logs the errors of runnables that end meanwhile.

Differences from the manager of controller-runtime v0.25:

  - An error during the start, and the end of the context, end the start. controller-runtime waits for the caches first,
    and spins while it waits after the end of the context (controller-runtime#3440).
  - Add does not wait for the end of the start, so a runnable may add runnables.
  - Start waits for each Warmup that has not returned.
  - The contexts of runnables have the values of the context of Start, and the goroutines of runnables have its pprof labels,
    whoever adds them.
  - Checks and handlers for servers that an App does not have are ignored at any time, as controller-runtime ignores them
    before the start of a manager without addresses.
  - There is no election, no metrics server, no health probes and no limit to the time of a stop.
*/
package appmanager
