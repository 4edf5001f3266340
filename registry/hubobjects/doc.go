// SPDX-License-Identifier: Apache-2.0

/*
Package hubobjects gives the controllers of an app objects of the hub to watch.

An app reads the hub with Remote.HubClient and Remote.HubCache, and neither of them reports a change. A module whose work in
a remote follows objects of the hub asks for the Source of its app, and watches the objects that belong to its remote:

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

The requests are the keys of objects in the hub, and the module reads them from the Objects. An object that gets another key
has gone for the one app, and is new for the other.

# One informer

All apps of the process share one informer for each kind, form and selection. It calls nothing of an app: it finds the apps
of an object by its key (a namespace, the value of a label, a name). So 500 apps with 10 000 objects cost one list, one watch
and 10 000 events, as one app does. Selections are shared if they have the same kind, form, labels and namespaces; the route
makes no difference. A module that needs no more than names and labels watches a *metav1.PartialObjectMetadata, which takes
a fraction of the memory.

Choose a selection that is the same in all apps, and leave the choice of an app to its keys: a label selector with the name
of the remote would make an informer of each app.

A module that brings the same objects to every remote watches them with the route All and without keys: each selected object
belongs to every app that watches the selection. The apps share the informer, its objects and its requests as with every other
route, and each of 500 apps makes its own request when an object changes.

# Deletes

The deletes of a module in a remote that follow from an object of the hub which has gone count towards its limits, unless
they are declared. Objects.Deleted has the evidence: the last state of the object, and whether a watch has reported it as
deleted. An object that a list lacks is no evidence, because the hub may have lost its data; nor is an object of which a watch
reported nothing, because the process did not run.

A report is not enough. A watch also reports an object as deleted that has lost the labels of the selection, and each object
of a kind whose CustomResourceDefinition is deleted. So Tombstone.Declare asks the hub's API server, and declares the deletes
only if

  - it serves the kind, and has no object of that name, or has one with another UID; and
  - its Namespace, and for a kind outside of the API groups of Kubernetes itself the CustomResourceDefinition, exist, are no younger
    than the object, and were not deleted before it; and the definitions of its owners alike (package internal/evidence).

A kind of an aggregated API server has no CustomResourceDefinition, so its deletes are never declared.

While the hub's API server does not respond, the objects are not current: undeclared deletes of the module are held with the
reason SourceStale, as if an informer of the remote were stale.

# Permissions

The informers act as the hub, so a module gets only kinds that it may get, list and watch in the hub: by its HubRules, in
the namespaces that its HubNamespaces allow, or by the permissions that follow from its configuration for the remote (see
RulesOf of registry.ModuleOptions). With registry.Options.Impersonate, too, the declaration of the module decides, and
not the permissions of the remote's ServiceAccount: the module, which chooses its keys, is trusted to keep remotes apart.

Secrets need a label selector, and an object in the namespace of the credentials of remotes is never delivered, whatever the
rules say.
*/
package hubobjects
