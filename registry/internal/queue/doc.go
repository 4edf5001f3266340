// SPDX-License-Identifier: Apache-2.0

/*
Package queue has the work queue of the controllers of apps. A hub has thousands of controllers, most of which are idle
most of the time, so a queue costs little then: it has no goroutine, and a timer only while an item is delayed.

A Queue follows the rules of controller-runtime's priority queue, and exports the same metrics:

  - It contains an item once. An item that is added again has the highest of its priorities and the earliest of its times.
  - Get returns the ready item of the highest priority; of these, the first that was added. A rise of the priority moves
    an item to the end of its new priority. A delayed item counts as added when its delay ends.
  - An item that is in work, between Get and Done, is not returned by another Get. If it is added meanwhile, it is
    returned after Done.

There are three differences. A queue calls its rate limiter without a lock and before AddWithOpts returns, because the
limiter is code of a module. ShutDown drops the items, so that the metrics of an app that has ended do not count them; it
may be called more than once. There is no log of the items at level 5.

The metrics unfinished_work_seconds and longest_running_processor_seconds are those of all queues of a name together,
which are the queues of one controller in all apps: the sum, and the longest. With controller-runtime's queue each app
overwrites the values of the others.
*/
package queue
