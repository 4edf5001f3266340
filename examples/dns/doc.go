// SPDX-License-Identifier: Apache-2.0

/*
Package dns is a hub module: it gives the API endpoint of every Cluster a record in an external DNS server, which
accepts dynamic updates (RFC 2136) that are signed with a TSIG key.

	edge.clusters.example.com.             300 IN A   192.0.2.10
	_clusterfx.edge.clusters.example.com.  300 IN TXT "clusterfx/1 hub=<id> cluster=<uid> attempt=<id>"

The name is the name of the Cluster in the zone. It leads to the host of status.server: an A or AAAA record for an
address, a CNAME for a name. The second record is the mark, which identifies the owner of the first record. A name with
a CNAME can have no other records, so the mark has a separate name, which no Cluster can have.

It is also an example of how package pipeline and package guard work together. It is a Go module of its own: make test-examples tests it.

# Usage

The key is in a Secret of the credentials namespace, in base64, as tsig-keygen prints it:

	kubectl -n clusterfx-system create secret generic dns-key --from-literal=secret=...

The rest is in the file of hub run --config. Without a server the module does nothing.

	modules:
	- name: dns
	  config:
	    server: ns1.example.com:53         # the primary server; the port is 53 if not set
	    zone: clusters.example.com
	    key: {name: clusterfx, algorithm: hmac-sha256, secretRef: {name: dns-key, key: secret}}
	    ttlSeconds: 300

Only server, zone, key.name and secretRef.name are required. The matching configuration of BIND, with which the module
is tested, is:

	key "clusterfx" {
		algorithm hmac-sha256;
		secret "...";               // from tsig-keygen -a hmac-sha256 clusterfx
	};
	zone "clusters.example.com" {
		type primary;
		file "/var/lib/bind/clusters.example.com.zone";
		update-policy { grant clusterfx zonesub A AAAA CNAME TXT; };
	};

The condition DNSReady of a Cluster reports the state of its record; DNSReconciling or DNSStalled is True in addition
while it applies. The hub's own Ready does not depend on these conditions. The reasons are in reasons.go, and in package
pipeline.

The finalizer pipeline.clusterfx.dev/dns keeps a Cluster until its record is gone. To release a Cluster whose record
cannot be deleted because the server is gone permanently, remove that finalizer. To stop using the module, remove its
configuration first, and then the finalizer from all Clusters. Records in a previously configured zone or server stay.

# Foreign records

A record is changed or deleted only if the mark has the id of this hub and the UID of this Cluster, and is created only
if there is nothing of its name, nor of the mark's. The server ensures both atomically, with prerequisites in the same
request. All other records are NameTaken, and are checked again with backoff: a record without a mark, a record of
another hub, and a record of an earlier Cluster of the same name that was released without its record. Foreign records
of other types at a name of this hub stay.

The module writes only the conditions and the finalizer of a Cluster.

# Exactly once

The pipeline reads the zone, compares, and decides, as it does with any system whose state can be read. A hub may be
killed between reading and writing, and its request may arrive late. So all changes are made under a lock (package
guard), which is a Lease in the credentials namespace. A killed hub holds the lock for another LockSeconds, in which no
other hub changes records: by then its requests have been executed, or are lost.

	killed                             the next hub sees         the next hub does
	before the request was sent        no mark                   waits for the lock, and creates the record
	before the request was done        no mark                   the same; it finds the id of the attempt under
	                                                             the lock, or the server finds the name in use
	before it had the response         the mark                  nothing: the record is there
	while it deleted                   the mark, or none         waits for the lock, and deletes the rest

The id of the attempt stays the same for every hub that continues the attempt, and is in the mark. A record that was
deleted from the zone is created again, by another attempt.

# Permissions

	clusters.clusterfx.dev         get, list, watch, patch
	clusters.clusterfx.dev/status  patch
	leases.coordination.k8s.io     get, create, update, delete

The module also uses permissions that every hub has in the credentials namespace: get on the Secret, and events.

# Considerations

A request that the server itself delays for longer than LockSeconds may create a record for a Cluster that is gone. Its
mark identifies that Cluster.

The Secret is read for each session with the server, and past any cache. A new key is used at once. Neither it nor any
part of it is in an error, a log line or a condition.

Every response must be signed before the module acts on it; a negative response needs no signature. Requests use TCP,
which an attacker off the path cannot spoof, and which has room for signatures.

The module reads the zone again after each change of the Cluster, and every five minutes, and corrects foreign changes.
A server silently ignores a CNAME at a name with other records. So the module reads each change back.
*/
package dns
