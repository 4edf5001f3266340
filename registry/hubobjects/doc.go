// SPDX-License-Identifier: Apache-2.0

/*
Package hubobjects gives the controllers of an app objects of the hub to watch. Remote.HubClient and Remote.HubCache
report no changes; a module whose work follows objects of the hub watches those that belong to its remote:

	func setUp(p registry.Remote) error {
		configs, err := p.HubObjects.Watch(hubobjects.Selection{
			Object: &corev1.ConfigMap{}, Route: hubobjects.ByLabel("example.com/cluster"),
		}, string(p.Name))
		if err != nil {
			return err
		}
		return registry.ControllerManagedBy(p.Manager).Named("copies").
			WatchesRawSource(configs.Requests()).Complete(&copier{hub: configs, remote: p.Client})
	}

Requests are keys of objects in the hub. An object that gets another key has gone for one app, and is new for the
other.

All apps share one informer for each kind, form (objects or metadata), labels and namespaces: 500 apps with 10 000
objects cost one list, one watch and 10 000 events. So choose a selection that is the same in all apps, and leave the
app to the keys; a selector with the name of the remote would make an informer of each app. With the route All, each
object belongs to every app.

Deletes that follow from an object which has gone count towards the limits, unless Tombstone.Declare declares them. A
watch also reports as deleted what has lost the selected labels, or whose kind has gone. So Declare asks the hub's API
server whether the object is gone, while its Namespace and, for kinds outside of Kubernetes, its
CustomResourceDefinition still stand (package internal/evidence). Deletes of aggregated kinds are never declared.
While the hub's API server does not respond, undeclared deletes are held as SourceStale.

The informers act as the hub, so a module gets only kinds that its HubRules, HubNamespaces or configuration allow it
to get, list and watch, also with Options.Impersonate: the module, which chooses its keys, is trusted to keep remotes
apart. Secrets need a label selector, and an object in the namespace of the credentials is never delivered.

Cost decides the design. A handler for each of 500 apps would be called five million times for 10 000 objects. Here an
informer has one handler and an index of objects and apps by key: an event costs two lookups and a note for each app
that it concerns. No code of a module runs in the informer's goroutine. A note is an entry in the map of a source, one
for each object, so a stuck app delays no other. Its memory is bounded by its objects and at most 10 000 tombstones
for an hour. Reads, notes and tombstones come from one index under one lock, so a reader that does not find an object
finds its tombstone; the informer's store is ahead of its events.

A registry has one Pool, and makes each Source with it.
*/
package hubobjects
