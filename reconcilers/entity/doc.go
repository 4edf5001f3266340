// SPDX-License-Identifier: Apache-2.0

/*
Package entity reconciles target state that does not live in Kubernetes: the orders of a customer portal, a fleet of devices.

An entity is a value under a key of a NATS JetStream key-value bucket. It is a primary: a controller makes secondaries of it,
objects in a cluster, and repairs them. Each remote's app has a controller, so a remote that is away delays no other.

	store := entity.NewStore(tenants, entity.JSON(validate)) // tenants is a *bucket.Bucket
	_, err := entity.Add(store, entity.Func[Tenant](reconcile), entity.Options{
		Name: "tenants", Marks: entity.Marks{Hub: p.HubID, Kind: "Tenant"},
		Manager: p.Manager, Cluster: string(p.Name), Owns: []client.Object{&corev1.Namespace{}},
	})

	func reconcile(ctx context.Context, t *entity.Entity[Tenant], s *entity.Secondaries) (entity.Report, error) {
		return entity.Report{Ready: true}, s.Apply(ctx, namespaceOf(t))
	}

A request is a key, made by a change of the entity, an event of a secondary, Options.Resync or the author:

	the bucket has             the secondaries
	a value                    of an earlier life are deleted; Reconciler.Reconcile makes the others
	a value, undecodable       stay as they are; the status says why
	a marker                   are deleted: the marker is evidence (registry/deletes)
	nothing, and is complete   are deleted, within the limits of the module, unless a mark proves that the bucket is Changed
	nothing, and is lost       stay
	nothing, and is Changed    stay, until an operator accepts the bucket

Package bucket explains the left column. A bucket has no finalizers: the secondaries are the record, and request their owner
when a process starts and when the bucket has become complete.

Options.OwnsEntities adds secondaries in other buckets, Options.Hub objects in the hub, and Options.Reads what a reconciler
only reads.

Secondaries have marks: a label of the kind, and annotations with the key, the life, and a hash that needs the id of the hub.
An object without them, or with changed or copied marks, is foreign: it is never written or deleted. A write carries the UID and
resourceVersion whose marks were read. What a Reconciler deletes has the entity as its cause (deletes.CausedBy).

The status is a value under the same key of StatusBucket, with a part for each cluster, merged by compare-and-swap: writers of
values and of the status never conflict, and need different permissions.
*/
package entity
