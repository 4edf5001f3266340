// SPDX-License-Identifier: Apache-2.0

/*
Package faults holds the fault suite: real faults, and the response of the hub.

The rows F1 to F76 are from the catalogue of faults, later ones were found since. The rows of this package are
TestFaults/rows/...: one remote breaks, reports its fault in time, is restored, and works again in time, while two
healthy ones under load must not be affected: no lease fails, every write is reconciled, Ready does not change, no app
is replaced. TestFaults_OfTheHub is about a hub that lacks a resource, and TestFigure_... measure the times in
docs/performance.md.

	go test -v -timeout 90m ./e2e/faults      at least half an hour; with -short TestDoc alone
	CLUSTERFX_FIGURES=figures.md go test -timeout 60m -run TestFigure ./e2e/faults

A figure that misses its goal is marked; the test fails by the factor farOff only, since figures need an idle machine.
A remote is a name for one of the API servers (e2e/fleet), with a connection that can be broken (e2e/fault). Those
that are killed, frozen or get another certificate take turns with a server. Times are those of Cluster objects as a
client sees them.

# Where each row is proven

A test without a package is in this one; "..." is a row of TestFaults. All tests of a row prove it together.

	F1   "API server down at registration"; registry/kubeconfig TestClassify_realServers
	F2   "host name that does not exist"; not proven: a name whose address changes
	F3   "packets dropped at registration"; registry/kubeconfig TestClassify
	F4   "TLS never answered", "API server frozen"; registry/kubeconfig TestClassify
	F5   "answers kept back by a proxy"; registry TestHostile (silence)
	F6   registry TestHostile (html)
	F7   "another certificate authority behind the address"; registry/kubeconfig TestClassify_realServers
	F8   "certificate for another name", "certificate of the API server expired"; registry/kubeconfig TestClassify
	F9   reconcilers/cluster TestCluster_CredentialsExpire
	F10  "token revoked"; reconcilers/cluster TestCluster_CredentialsThatAreRejected, TestCluster_CredentialsExpire
	F11  "no right to list"; registry TestUndeclared_ListAndWatch
	F12  reconcilers/cluster TestReading; registry/kubeconfig TestParse_rejects
	F13  reconcilers/cluster TestReading, TestCluster_EachFailureHasItsReasonAndHealsByItself
	F14  reconcilers/cluster TestCluster_EachFailureHasItsReasonAndHealsByItself
	F15  reconcilers/cluster TestCluster_OneNameForOneCluster; registry TestRegistry_TheOlderOfTwoStays
	F16  reconcilers/cluster TestCluster_Identity; registry TestRegistry_EndpointOfAnotherCluster;
	     "another cluster behind the same address at once"
	F17  reconcilers/cluster TestCluster_OneNameForOneCluster
	F18  "answers kept back by a proxy"; registry TestHostile (watch never begins)
	F19  "API that is no longer served"; not proven: API servers of other versions
	F20  "CRD missing, installed, removed and installed again"; registry TestRegistry_MissingAPI
	F21  "CRD missing, installed, removed and installed again"; not proven: in another version
	F22  "aggregated API down"
	F23  "API server killed"; TestFigure_Outages; registry TestRegistry_RoundTripsAfterAnOutage
	F24  "network black-holed", "API server frozen"; TestFigure_Outages; registry/internal/probe TestConnection_FaultsBehindALoadBalancer
	F25  "answers lost", "requests lost"; registry/internal/transport TestChain_Deadlines; that retries are idempotent is for modules to see to
	F26  "connections reset repeatedly", "outages that follow each other";
	     registry/internal/machine TestMachine_Flaps
	F27  "two seconds of latency", "two seconds of latency for more than a minute",
	     "two seconds of latency at registration"; not proven: lost packets
	F28  "initial list that takes ten seconds on the way", "initial list that takes a minute on the way";
	     registry/internal/transport TestChain_HearsLists
	F29  "history compacted while the network was down"; registry TestHostile (watch expires forever)
	F30  registry TestHostile (429); registry/internal/transport TestChain_Amendments; a remote that always responds with 429 is NotHealthy
	F31  "etcd frozen"; registry TestHostile (500, 503)
	F32  registry/internal/transport TestChain_EndsSilentWatches
	F33  "restored from a backup"
	F34  "cluster rebuilt behind the same address"
	F35  "token and certificate rotated"; TestFigure_Rotation; reconcilers/cluster TestCluster_SecretOfARunningApp
	F36  reconcilers/cluster TestCluster_SecretOfARunningApp
	F37  reconcilers/cluster TestMemory
	F38  reconcilers/cluster TestCluster_SecretOfARunningApp
	F39  registry TestSupervise_NothingButPanics; registry/internal/contain TestBreaker
	F40  registry TestContain_Panics, TestRegistry_ModuleFailures
	F41  e2e/sharding TestSharding_Poison; reconcilers/cluster/internal/journal TestJournal_KnowsWhatTheLastProcessWasStarting
	F42  registry TestSupervise_Stuck, TestRegistry_Zombie
	F43  TestFigure_Isolation
	F44  not proven: nothing counts the goroutines or the memory of a module
	F45  registry TestBudget_OfObjects, TestBudget_Grows, TestHostile_Memory
	F46  "remote with as many events as it can have"; registry/watch TestQueue_ANoisyRemote
	F47  not applicable: in a remote only modules write, and the field managers are theirs
	F48  "admission webhook that hangs"; registry/internal/transport TestChain_Deadlines
	F49  "certificate of the API server not valid yet"; not proven: leases under another clock
	F50  cmd/hub TestRun_HubAway, TestFreeze_DeposedReplicaWritesNothing; not proven: a clock that is set
	F51  TestFaults_OfTheHub (too few file descriptors); registry/internal/probe TestIsHubError
	F52  TestFaults_OfTheHub (no time on the processor), for ten seconds: after that a hub cannot tell;
	     registry/liveness TestPulse_Starved
	F53  cmd/hub TestRun_HubAway
	F54  cmd/hub/app TestRun_LostLease; cmd/hub/internal/replica TestReplica_LeaseOfAnAdministratorWithoutContact
	F55  cmd/hub TestRun_KilledAtRandomMoments, TestRun_LogAndTracesSayWhatTheyAreAbout
	F56  cmd/hub/app TestRun_Standby; cmd/hub TestRun_SIGTERMWithManyRemotes
	F57  cmd/hub TestFreeze_DeposedReplicaWritesNothing
	F58  not proven: two hubs of different clusters do not know of each other
	F59  cmd/hub TestRun_KilledAtRandomMoments; reconcilers/cluster TestCluster_DeletionIsTakenUpAfterARestart;
	     not proven: an end at each single write
	F60  not proven by itself: the end of the process is in F41 and F55; the memory of a remote is F45
	F61  not proven
	F62  reconcilers/cluster TestCluster_RestartOfTheHub; "history compacted while the network was down"
	F63  not applicable: there is one version of the API and no release before it
	F64  not proven: ten thousand; registry/internal/tests TestStarts_Order, TestStarts_Limits are about who may start when
	F65  TestFigure_Restart, of two hundred; not proven: ten thousand
	F66  registry/internal/machine TestMachine_Histories
	F67  TestFigure_Deregister; registry TestRegistry_RemoveEnds
	F68  reconcilers/cluster TestCluster_DeletionOfWhatHangs; registry TestRegistry_RemoveEnds
	F69  reconcilers/cluster TestCluster_DeletionFollowedByACluster;
	     e2e/regression TestChurn_DeletedAndRegisteredAgainWithAnotherSecret
	F70  reconcilers/cluster TestCluster_Deletion, of the Secret; a Cluster has no namespace
	F71  reconcilers/cluster TestCluster_Deletion
	F72  registry TestRegistry_HangingHooks; reconcilers/cluster TestCluster_DeletionOfWhatHangs
	F73  registry TestRegistry_HangingHooks; registry/internal/app TestHooks_StopRunsAllOfThem
	F74  e2e/regression TestAncestor_OneLockForEverybody; reconcilers/cluster TestCluster_DeletionOfWhatHangs
	F75  registry TestRegistry_Leases
	F76  e2e/regression TestLeaks_RemotesThatEndInEveryWay; registry TestRegistry_Cycles
	F77  "server that moves to and fro"; registry TestRegistry_EndpointThatMovesToAndFro; registry/internal/machine TestMachine_Histories
	F78  TestDeletes_HubLosesItsData, TestDeletes_HubKilled; reconcilers/cluster TestRemovals_OfVanishedClusters
*/
package faults
