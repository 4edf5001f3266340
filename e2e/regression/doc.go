// SPDX-License-Identifier: Apache-2.0

/*
Package regression has the defects of other systems, and the tests which show that they do not occur here. Beside the
tests named below, churn_test.go has names that come and go fast, leaks_test.go a thousand remotes that end in every
way while memory is measured, canary_test.go remotes that send the hub's token back. A bystander is a remote that must
not be affected.

# Where each defect is proven

A test without a package is in this one.

The defects of the system that the registry follows:

	D1   after a restart no cluster is started again, since the observed generation is persisted:
	     reconcilers/cluster TestCluster_RestartOfTheHub
	D2   the names of controllers are used up, so that a second cluster, and a second start, fail:
	     registry TestRegistry_RunsTheSameModuleInEveryRemote, TestRegistry_ProvidesWhatRemoteLists
	D3   an unreachable cluster ends the process:
	     registry TestRegistry_RoundTripsAfterAnOutage, TestRegistry_ModuleFailures
	D4   one lock for all clusters is held across the network, hooks and callbacks:
	     TestAncestor_OneLockForEverybody; registry TestRegistry_Leases
	D5   a start returns before caches are filled:
	     registry TestControllers_ThatWaitTooLongAreNamed; registry/internal/tests TestManager_StartsInOrder
	D6   rotated credentials are ignored:
	     reconcilers/cluster TestCluster_SecretOfARunningApp; registry TestRegistry_CredentialIsSwappedUnderTheRunningApp
	D7   a start that fails leaks, and a stop that fails blocks the name:
	     registry/internal/app TestHooks_StopWhatHasStarted; registry TestRegistry_ModuleFailures, TestRegistry_Zombie
	D8   a kubeconfig runs programs, reads files, and sends credentials anywhere:
	     registry/kubeconfig TestParse_rejects, TestTransport_sendsNothingElsewhere;
	     reconcilers/cluster TestReading
	D9   a cluster without a Secret cannot be deleted:
	     reconcilers/cluster TestCluster_Deletion; registry TestRegistry_RemoveEnds
	D10  finalizers and conditions of others are overwritten, and the status is written although it is unchanged:
	     reconcilers/cluster TestCluster_Deletion, TestCluster_StatusIsAppliedOnChangeOnly;
	     reconcilers/internal/tests TestConditionsOf_KeepTheTimeOfTheirLastTransition
	D11  objects without a counterpart are deleted, also those of users:
	     reconcilers/cluster TestRemovals_OfVanishedClusters; registry TestHubObjects_EmptiedHub
	D12  errors are swallowed, a nil object panics, and a kind that is missing disables those after it:
	     registry/internal/contain TestBreaker; registry TestSupervise_Not, TestRegistry_MissingAPI
	D13  the status of the remote does not come back:
	     modules TestInventory_FollowsTheNodes
	D14  a registration installs something:
	     registry TestRegistry_NothingButQuestionsBeforeTheIdentity; cmd/hub/app TestRBAC_IsEnough
	D15  the roles that are shipped do not suffice:
	     cmd/hub/app TestRBAC_IsEnough, TestRun_RefusesToStart
	D16  a cache of writes outlives what was written:
	     registry/internal/cache TestInformer_IsClientGos; registry TestRegistry_EndpointOfAnotherCluster
	D17  no component learns of clusters that come and go:
	     registry TestSource, TestRegistry_SelectsModules
	D18  the program runs inside an invoke of its own app:
	     cmd/hub/app TestRun_HooksAroundTheManager, TestRun_EndsWhenAModuleAsksForIt

The defects of the libraries that connect controllers with many clusters, of which L1, L2, L3, L6 and L7 were
reproduced there and the causes of the others found in the source:

	L1   a silent cluster keeps all others out:
	     registry TestHostile; registry/watch TestRemotes_SilentOnes
	L2   a cluster that does not sync ends the process:
	     registry TestControllers_ThatWaitTooLongAreNamed
	L3   the removal of a cluster ends another one, which was started in its context:
	     registry TestRegistry_SpawnReturnsWithItsContext
	L4   like names are taken for one another:
	     registry TestRegistry_InvalidName
	L5   a cluster ends with the call that has registered it:
	     registry TestRegistry_SpawnReturnsWithItsContext
	L6   every event engages the cluster again:
	     registry TestRegistry_EnsureIsIdempotent; registry/kubeconfig TestFingerprint
	L7   the arguments of one cluster's plugin leak into the next:
	     registry/kubeconfig TestParse_rejects
	L8   a slow subscriber keeps everybody waiting:
	     TestClusterAPI_SlowSubscriberKeepsEverybodyWaiting
	L9   a renewed credential lists everything again:
	     registry/kubeconfig TestTransport_Swap_makesNoReflectorList
	L10  work for dead clusters fills the queue of all:
	     registry TestRegistry_Leases; registry/watch TestQueue_RemotesTakeTurns
*/
package regression
