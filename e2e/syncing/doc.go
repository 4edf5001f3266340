// SPDX-License-Identifier: Apache-2.0

/*
Package syncing holds the tests of reconcilers/syncer that need several real clusters, faults, or a whole hub.

# Usage

	go test ./e2e/syncing                          a fast part
	CLUSTERFX_FAULTS=all go test ./e2e/syncing     everything

CLUSTERFX_SEED repeats the random choices of TestModel.

# Where each promise is proven

	promise                                                       test
	the process ends before and after each of its writes          TestModel/every_write
	three writers, outages of both sides, 50 ends at random       TestModel/random (15 in the fast part)
	no write to an object without marks, from the audit log       TestModel
	two pairs with one target namespace, colliding tenants        TestHard/neighbours
	a chain of two pairs through two clusters                     TestHard/nested_tenants
	10 000 objects, and no write after a restart                  TestHard/many_objects (1 000 in the fast part)
	kinds without a status subresource                            TestHard/no_status_subresource
	admission that rejects or mutates: bounded writes, an event   TestHard/rejecting_webhook, TestHard/mutating_webhook
	a Secret for five remotes: one list, one watch, no write      TestHub/one_Secret_for_all_remotes
	the hub loses its data: the guard, and nothing by hand        TestHub/the_hub_loses_its_data
	remotes that are dead, paused or deregistered                 TestHub/remotes_that_are_away

# How it works

The process of a pair runs in the process of the test, with clients whose transport ends it: from then on each request fails.
A witness watches the downstream namespace and has each state of each object. The audit log has each write of the pair with
the resourceVersion that the write requires, so the test finds the very state that the write has changed, and its marks.
*/
package syncing
