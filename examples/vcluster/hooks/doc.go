// SPDX-License-Identifier: Apache-2.0

/*
Package hooks is the example hooks of vcluster-sdk: hooks that change objects while they are read and written.

Each copy of a Pod gets a label, each copy of a Service gets a port, and one Secret, which is created at the start, is copied
although no Pod uses it. The hooks of the original change the requests of vcluster's own syncers. There are none here, so the
package also has the syncers. The hook for Services of the original pretends that the tenant's Service has the port, because the
syncer would remove it otherwise; here each write has it, and nothing is pretended.

	original    hooks, v0.4.2    161 lines, without syncers
	this one    hooks.go          77 lines, with three syncers
*/
package hooks
