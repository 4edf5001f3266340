// SPDX-License-Identifier: Apache-2.0

/*
Package regression holds tests and nothing else: what breaks other systems does not break this one.

# What is here

Each test is named after somebody else's defect, and its comment says in a sentence or two what broke
there. It brings a hub, or a registry alone, into the same situation, and asserts that nothing
happens to those whom it does not concern.

	ancestor_*_test.go   the 18 defects of the system that the registry follows, D1 to D18
	libraries_test.go    those of the libraries that connect controllers with many clusters
	churn_test.go        names that come, go and come back faster than anybody needs it
	leases_test.go       callbacks that do what a callback should not do
	leaks_test.go        what is left of remotes that ended in every way there is: nothing

# Usage

The ordinary run takes less than a minute. With CLUSTERFX_FAULTS=all everything that is counted is
done more often, and the figures are printed:

	CLUSTERFX_FAULTS=all go test -v ./e2e/regression

# How it works

Four real API servers are shared by all tests: two that hubs run against, and two remotes. They keep
audit logs, so that a test can say what a remote was asked, and by which epoch. Faults are those of
e2e/fault and e2e/hostile. One hub runs through most tests, which have remotes of their own in it: a
test that hurts the hub hurts its neighbours, and is found out. Tests that start and stop hubs take
turns on the other API server.

A bystander is a remote that must not notice anything. Its client is lent out all the time, its app is
never replaced, and its reconciler works at the end.

The tests of this package do nothing unless the environment variable CLUSTERFX_FAULTS is set: to "some" for a
fast part, or to "all". They are not part of make test yet, because a few of them still fail, or need a
machine that does nothing else.
*/
package regression
