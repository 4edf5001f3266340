// SPDX-License-Identifier: Apache-2.0

/*
Package regression holds only tests: the defects of other systems do not occur in this system.

# Contents

Each test is named after a defect of another system, and its comment describes the failure there in a sentence or two.
The test brings a hub, or a registry alone, into the same situation, and asserts that uninvolved remotes are not
affected.

The 18 defects of the system that the registry follows, in ancestor_*_test.go:

	D1   TestAncestor_RestartLosesEveryCluster
	D2   TestAncestor_SecondClusterFailsOnControllerNames
	D3   TestAncestor_UnreachableRemoteEndsTheProcess
	D4   TestAncestor_OneLockForEverybody
	D5   TestAncestor_SpawnReturnsBeforeCachesAreFilled
	D6   TestAncestor_RotatedCredentialsAreIgnored
	D7   TestAncestor_FailedStartLeaksAndFailedStopBlocks
	D8   TestAncestor_KubeconfigActsInTheHub
	D9   TestAncestor_ClusterWithoutSecretCannotBeDeleted
	D10  TestAncestor_FinalizersAndConditionsAreOverwritten
	D11  TestAncestor_MonitorDeletesWhatOthersMade
	D12  TestAncestor_ErrorsAreSwallowed
	D13  TestAncestor_StatusDoesNotComeBack
	D14  TestAncestor_RegistrationInstallsSomething
	D15  TestAncestor_NamespacedRightsCannotListClusters
	D16  TestAncestor_CacheOfWritesOutlivesWhatWasWritten
	D17  TestAncestor_NobodyHearsOfClusters
	D18  TestAncestor_ProgramRunsInsideAnInvoke

The defects of the libraries that connect controllers with many clusters, in multiclusterruntime_test.go and
libraries_test.go. Five of them were reproduced there:

	one silent cluster keeps all others out  TestMulticlusterRuntime_SilentClusterKeepsOthersFromEngaging
	a cluster that does not sync ends all    TestMulticlusterRuntime_UnsyncedClusterEndsTheProcess
	removing one cluster ends another        TestMulticlusterRuntime_RemovingOneClusterEndsAnother
	every event engages a cluster again      TestMulticlusterRuntime_EveryEventEngagesAnew
	arguments leak from one to the next      TestClusterInventory_ArgumentsOfOneClusterLeakIntoTheNext

and the cause of the others was found in the source:

	like names share one lease               TestMulticlusterRuntime_LikeNamesAreTakenForOneAnother
	a cluster lives as long as a call        TestMulticlusterRuntime_ClusterEndsWithTheCallThatRegisteredIt
	a slow subscriber holds up all           TestClusterAPI_SlowSubscriberKeepsEverybodyWaiting
	a renewed credential relists everything  TestGardener_RenewalListsEverythingAnew
	work for dead clusters fills the queue   TestKarmada_WorkForUnreadyClustersGoesRoundInTheQueueOfAll

And the results of heavy use:

	churn_test.go    names that come, go and come back faster than any user needs
	leases_test.go   misbehaving callbacks
	leaks_test.go    remotes that ended in every possible way leave nothing behind
	series_test.go   not even in the metrics of libraries

# Usage

The ordinary run takes about a minute and a half. With CLUSTERFX_FAULTS=all the tests have more repetitions, a thousand
remotes come and go while memory is measured, and the figures are printed:

	CLUSTERFX_FAULTS=all go test -v ./e2e/regression

# How it works

Four real API servers are shared by all tests: two that hubs run against, and two remotes. They keep audit logs, so that
a test can read the requests to a remote, with their epoch. Faults come from e2e/fault and e2e/hostile. One hub runs
through most tests, which have separate remotes in it: a test that harms the hub harms the other tests, and fails
visibly. Tests that start and stop hubs take turns on the other API server.

A bystander is a remote that must not be affected. Its client is lent out all the time, its app is never replaced, and
its reconciler works at the end.
*/
package regression
