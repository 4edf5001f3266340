// SPDX-License-Identifier: Apache-2.0

/*
Package appmanager has the manager of an App: a manager.Manager with a goroutine for each runnable that runs, and no
other. controller-runtime's manager has one more for each of six groups, and a second recorder of events, which counts
with one manager per remote.

Start runs in the goroutine of its caller, and starts the runnables in these steps; one that is added after the turn
of its step starts at once:

 1. servers (manager.Server) and webhook servers;
 2. the cluster and all other runnables with a GetCache method, until their caches have synced;
 3. runnables that need no leader election;
 4. the Warmup of all controllers, without waiting for its end;
 5. all other runnables. Then the channel of Elected is closed.

The first error of a runnable ends the manager and is the error of Start; the end of the context ends it with nil.
Start then refuses further runnables, ends the steps so that no runnable loses what it uses, logs further errors, and
returns when all have returned, however long that takes:

 1. runnables that need no leader election, with each Warmup: a controller takes its lock in both;
 2. the runnables that do, whose objects are in the caches until then;
 3. the caches, and with the cluster the recorder of events;
 4. webhook servers, then servers.

Other than in controller-runtime v0.25:

  - An error during the start, and the end of the context, end the start. controller-runtime waits for the caches
    first, and spins while it waits after the end of the context (controller-runtime#3440).
  - Add does not wait for the end of the start, so a runnable may add runnables.
  - Start waits for each Warmup that has not returned.
  - Contexts of runnables have the values, and goroutines the pprof labels, of the context of Start, whoever adds
    them.
  - Checks and handlers for servers that an App lacks are ignored at any time.
  - There is no election, no metrics server, no health probes and no limit to the time of a stop.
*/
package appmanager
