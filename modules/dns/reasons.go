// SPDX-License-Identifier: Apache-2.0

package dns

// Reasons of the condition DNSReady, besides those of package pipeline.
const (
	// ReasonKeyNotUsable: the Secret with the TSIG key is missing, or there is no key in it.
	ReasonKeyNotUsable = "KeyNotUsable"
	// ReasonServerUnreachable: the DNS server does not answer, or what answers is not signed with the key.
	ReasonServerUnreachable = "ServerUnreachable"
	// ReasonRefused: the DNS server does not do what it is asked for. The message has its answer.
	ReasonRefused = "Refused"
	// ReasonNameTaken: the name has records already, which are not marked as this Cluster's. They are left
	// alone.
	ReasonNameTaken = "NameTaken"
	// ReasonNotApplied: the server has accepted a change, and the record is not what it should be.
	ReasonNotApplied = "NotApplied"
	// ReasonNoRecord: there can be no record for the Cluster. The message says why.
	ReasonNoRecord = "NoRecord"
	// ReasonLocked: another hub is changing the record, or was killed while it did.
	ReasonLocked = "Locked"
)
