// SPDX-License-Identifier: Apache-2.0

/*
Package regression holds tests and nothing else: what breaks other systems does not break this one.

# What is here

Each test is named after somebody else's defect, and its comment says in a sentence or two what broke
there. It brings a hub, or a registry alone, into the same situation, and asserts that nothing
happens to those whom it does not concern.

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

Those of the libraries that connect controllers with many clusters, in libraries_test.go. Five of them were
reproduced there:

	one silent cluster keeps all others out  TestMulticlusterRuntime_SilentClusterKeepsOthersFromEngaging
	a cluster that does not sync ends all    TestMulticlusterRuntime_UnsyncedClusterEndsTheProcess
	removing one cluster ends another        TestMulticlusterRuntime_RemovingOneClusterEndsAnother
	every event engages a cluster anew       TestMulticlusterRuntime_EveryEventEngagesAnew
	arguments leak from one to the next      TestClusterInventory_ArgumentsOfOneClusterLeakIntoTheNext

and of others the cause was found in the source:

	like names share one lease               TestMulticlusterRuntime_LikeNamesAreTakenForOneAnother
	a cluster lives as long as a call        TestMulticlusterRuntime_ClusterEndsWithTheCallThatRegisteredIt
	a slow subscriber holds up all           TestClusterAPI_SlowSubscriberKeepsEverybodyWaiting
	a renewed credential lists all anew      TestGardener_RenewalListsEverythingAnew
	work for dead clusters fills the queue   TestKarmada_WorkForUnreadyClustersGoesRoundInTheQueueOfAll

And what comes of use:

	churn_test.go    names that come, go and come back faster than anybody needs it
	leases_test.go   callbacks that do what a callback should not do
	leaks_test.go    what is left of remotes that ended in every way there is: nothing
	series_test.go   nor in the metrics that libraries keep

# Usage

The ordinary run takes about a minute and a half. With CLUSTERFX_FAULTS=all everything that is counted is
done more often, a thousand remotes come and go while memory is measured, and the figures are printed:

	CLUSTERFX_FAULTS=all go test -v ./e2e/regression

# How it works

Four real API servers are shared by all tests: two that hubs run against, and two remotes. They keep
audit logs, so that a test can say what a remote was asked, and by which epoch. Faults are those of
e2e/fault and e2e/hostile. One hub runs through most tests, which have remotes of their own in it: a
test that hurts the hub hurts its neighbours, and is found out. Tests that start and stop hubs take
turns on the other API server.

A bystander is a remote that must not notice anything. Its client is lent out all the time, its app is
never replaced, and its reconciler works at the end.
*/
package regression
