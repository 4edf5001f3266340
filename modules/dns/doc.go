// SPDX-License-Identifier: Apache-2.0

/*
Package dns is a hub module: it gives the API endpoint of every Cluster a record in an external DNS server, which
takes dynamic updates (RFC 2136) that are signed with a TSIG key.

	edge.clusters.example.com.             300 IN A   192.0.2.10
	_clusterfx.edge.clusters.example.com.  300 IN TXT "clusterfx/1 hub=<id> cluster=<uid> attempt=<id>"

The name is that of the Cluster in the zone. It leads to the host of status.server: an A or AAAA record for an
address, a CNAME for a name. The second record is the mark; it says whose the first one is. A name with a CNAME can
have nothing else, so the mark has a name of its own, which is that of no Cluster.

It is also an example of how package pipeline and package guard go together.

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

Of this all but server, zone, key.name and secretRef.name may be left out. For BIND, with which the module is tested,
too, the other half is:

	key "clusterfx" {
		algorithm hmac-sha256;
		secret "...";               // from tsig-keygen -a hmac-sha256 clusterfx
	};
	zone "clusters.example.com" {
		type primary;
		file "/var/lib/bind/clusters.example.com.zone";
		update-policy { grant clusterfx zonesub A AAAA CNAME TXT; };
	};

The condition DNSReady of a Cluster says how things are; besides it, DNSReconciling or DNSStalled is True while that is
so. The hub's own Ready does not depend on any of them. The reasons are in reasons.go, and in package pipeline.

The finalizer pipeline.clusterfx.dev/dns keeps a Cluster until its record is gone. A Cluster whose record cannot be
deleted, since the server has gone for good, is let go by removing that finalizer. To take the module out of use, delete
the finalizer from all Clusters after its configuration is gone. Records of another zone or server that was configured
before stay where they are.

# What is not touched

A record is changed or deleted only if the mark has the id of this hub and the UID of this Cluster, and is created
only if there is nothing of its name, nor of the mark's. The server makes sure of both, with prerequisites in the
same request, so that nobody can be faster. All else is NameTaken, and is looked at again with growing pauses: a
record without a mark, one of another hub, and one of an earlier Cluster of the same name that was let go without
its record. What others add to a name that is ours stays, if it is of another type.

Nothing of the Cluster is written but the conditions and the finalizer.

# Exactly once

The pipeline looks at the zone, compares, and decides; it would do so with any system that can be asked what it
has. Between looking and acting a hub may be killed, and its request may come late. So all changes are made under a
lock (package guard), which is kept in a Lease in the credentials namespace. A hub that was killed has the lock for
another LockSeconds, in which nobody else changes anything: by then what it has sent has been done, or is lost.

	killed                             what the next hub sees    what it does
	before the request was sent        no mark                   waits for the lock, and creates the record
	before the request was done        no mark                   the same; it finds the id of the attempt under
	                                                             the lock, or the server finds the name in use
	before it knew of the answer       the mark                  nothing: the record is there
	while it deleted                   the mark, or none         waits for the lock, and deletes what is there

The id of the attempt is the same for all who have gone on with it, and is in the mark. A record that somebody has
deleted from the zone is made anew, by another attempt.

# Rights

	clusters.clusterfx.dev         get, list, watch, patch
	clusters.clusterfx.dev/status  patch
	leases.coordination.k8s.io     get, create, update, delete

Besides these the module uses what every hub has in the credentials namespace: get on the Secret, and events.

# Considerations

A request that the server itself holds back for longer than LockSeconds, and does only then, may make a record for a
Cluster that has gone. Its mark says so.

The Secret is read for each session with the server, and past any cache. A new key is used at once. Neither it nor any
part of it is in an error, a log line or a condition.

Every answer must be signed, too, before anything is done because of it; one that says no is believed without.
Requests go over TCP, which cannot be answered by somebody who sees nothing of it, and has room for signatures.

The zone is looked at again after each change of the Cluster, and every five minutes. What others have changed is put
right then. A server ignores a CNAME, without a word, where there are other records. So each change is read back.
*/
package dns
