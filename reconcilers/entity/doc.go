// SPDX-License-Identifier: Apache-2.0

/*
Package entity reconciles target state that does not live in Kubernetes: the orders of a customer portal, a fleet of devices, the
catalogue of a platform.

An entity is a value under a key of a NATS JetStream key-value bucket. It is a primary: a controller makes secondaries of it, which
are objects in a cluster, and repairs them when they change. Each remote has a controller of its own, in its app, so an entity that
concerns ten remotes is reconciled ten times, by itself in each of them: a remote that is away delays no other one.

	store := entity.NewStore(tenants, entity.JSON(validate)) // tenants is a *bucket.Bucket
	_, err := entity.Add(store, entity.Func[Tenant](reconcile), entity.Options{
		Name: "tenants", Marks: entity.Marks{Hub: p.HubID, Kind: "Tenant"},
		Manager: p.Manager, Cluster: string(p.Name), Owns: []client.Object{&corev1.Namespace{}},
	})

	func reconcile(ctx context.Context, t *entity.Entity[Tenant], s *entity.Secondaries) (entity.Report, error) {
		return entity.Report{Ready: true}, s.Apply(ctx, namespaceOf(t))
	}

# The life of a reconcile

A request is a key. It is made by a change of the entity, by an event of a secondary, after Options.Resync, and by the author. Each
reconcile compares the bucket with the cluster:

	the bucket has             the secondaries
	a value                    of an earlier life are deleted; Reconciler.Reconcile makes the others
	a value, undecodable       stay as they are; the status says why
	a marker                   are deleted: the marker is evidence (registry/deletes)
	nothing, and is complete   are deleted, within the limits of the module, unless a mark proves that the bucket is Changed
	nothing, and is lost       stay
	nothing, and is Changed    stay, until an operator accepts the bucket

See package bucket for the words of the left column. A bucket has no finalizers, so the secondaries themselves are the record: each of them requests its owner when a process starts, and when the bucket has become complete.

# Other clusters, other buckets

The secondaries of a controller are in its cluster. Options.OwnsEntities adds secondaries that are entities of other buckets, which
PutEntity writes, and Options.Hub objects in the hub, which Secondaries.Hub writes: their marks name the cluster as well, since the
controllers of all remotes write there. Options.Reads adds what a reconciler only reads.

# Marks

An entity is no owner that Kubernetes knows. Secondaries have marks instead: a label of the kind, and annotations with the key, the
life of the entity, and a hash of both and of the name of the object that needs the id of the hub. An object without them, or with
marks that were changed or copied from another object, is foreign: it is never written or deleted, and an Apply of its name returns
ErrResourceExists. A write carries the UID and the resourceVersion of the object whose marks were read. Two controllers with the same
marks in one app would delete each other's secondaries, so Add refuses the second one.

# Causes

What a Reconciler deletes has the entity as its cause (deletes.CausedBy); what is collected because the bucket lacks an entity has none.

# Status

The status of an entity is a value under the same key of another bucket, StatusBucket, with a part for each cluster. Writers merge
their part by compare-and-swap. So writers of values and of the status never conflict, do not wake each other, and need different
permissions. A part has a digest of its hub, which removes those of Clusters that it no longer has.

# Versions

JSON keeps fields that the type does not have when a value is updated, since they belong to a later version of the program that
shares the bucket.
*/
package entity
