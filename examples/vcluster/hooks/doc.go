// SPDX-License-Identifier: Apache-2.0

/*
Package hooks is vcluster-sdk's example hooks: they change objects while they are read and written. Each copy of a Pod gets a
label, each copy of a Service a port, and one Secret, created at the start, is copied although no Pod uses it. The original
changes vcluster's own syncers; here they are part of the package.

	original    hooks, v0.4.2    161 lines, without syncers
	this one    hooks.go          77 lines, with three syncers
*/
package hooks
