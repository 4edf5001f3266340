// SPDX-License-Identifier: Apache-2.0

/*
Package syncing holds the model-based test of reconcilers/syncer: pairs between real clusters, with faults. It does not run with
-short. CLUSTERFX_SEED repeats its random choices.

# Where each promise is proven

	promise                                                       test
	the process ends before and after each of its writes          TestModel/every_write
	three writers, outages of both sides, 50 ends at random       TestModel/random
	no write to an object without marks, from the audit log       TestModel
	a chain of two pairs through two clusters                     TestModel/nested_tenants

# How it works

The process of a pair runs in the process of the test, with clients whose transport ends it: from then on each request fails.
A witness watches the downstream namespace and has each state of each object. The audit log has each write of the pair with
the resourceVersion that the write requires, so the test finds the very state that the write has changed, and its marks.
*/
package syncing
