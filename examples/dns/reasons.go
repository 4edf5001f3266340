// SPDX-License-Identifier: Apache-2.0

package dns

// Reasons of the condition DNSReady, in addition to the reasons of package pipeline.
const (
	// ReasonKeyNotUsable: the Secret with the TSIG key is missing, or there is no key in it.
	ReasonKeyNotUsable = "KeyNotUsable"
	// ReasonServerUnreachable: the DNS server does not respond, or its response is not signed with the key.
	ReasonServerUnreachable = "ServerUnreachable"
	// ReasonRefused: the DNS server refuses a request. The message has its response.
	ReasonRefused = "Refused"
	// ReasonNameTaken: the name has records already, which are not marked as this Cluster's. They are left
	// alone.
	ReasonNameTaken = "NameTaken"
	// ReasonNotApplied: the server has accepted a change, and the record differs from the desired record.
	ReasonNotApplied = "NotApplied"
	// ReasonNoRecord: there can be no record for the Cluster. The message has the cause.
	ReasonNoRecord = "NoRecord"
	// ReasonLocked: another hub is changing the record, or was killed while it did.
	ReasonLocked = "Locked"
)
