// SPDX-License-Identifier: Apache-2.0

/*
Package syncing holds the model-based test of reconcilers/syncer: pairs between real clusters, with faults. It does
not run with -short. CLUSTERFX_SEED repeats its random choices.

	promise                                                       test
	the process ends before and after each of its writes          TestModel/every_write
	three writers, outages of both sides, 50 ends at random       TestModel/random
	no write to an object without marks, from the audit log       TestModel

A pair runs in the test's process, with clients whose transport ends it: each later request fails. Its cache of the
downstream cluster is up to 200 ms behind, so that decisions meet objects that have changed. A witness has each
state of the objects in the downstream namespace, and the audit log each write with the resourceVersion that it
requires, so the test finds the state that a write has changed, and its marks.
*/
package syncing
