// SPDX-License-Identifier: Apache-2.0

/*
Package preflight has the questions that are put to a remote before its modules are chosen, and their results: which
kinds the API server serves, and which of the permissions that modules declare the credentials lack.

The package consists of values and imports nothing of ours. So the state machine, which is pure, can hold results, and the
package probe, which sends the requests, needs to know neither modules nor the machine.
*/
package preflight
