// SPDX-License-Identifier: Apache-2.0

/*
Package queue has the work queue of the controllers of apps. A hub has thousands of them, mostly idle, so a queue has
no goroutine, and a timer only while an item is delayed.

A Queue has the rules and metrics of controller-runtime's priority queue:

  - It contains an item once, with the highest of its priorities and the earliest of its times.
  - Get returns the ready item of the highest priority, the first that was added. A rise moves an item to the end of
    its new priority. A delayed item counts as added when its delay ends.
  - An item in work, between Get and Done, is not returned by another Get. If added meanwhile, it is returned after
    Done.

Other than in controller-runtime: the rate limiter, which is code of a module, is called without a lock and before
AddWithOpts returns. ShutDown drops the items, so that metrics do not count them, and may be called again. Items are
not logged at level 5. unfinished_work_seconds and longest_running_processor_seconds are the sum and the longest of
all queues of a name, in all apps, which would overwrite each other.
*/
package queue
