// SPDX-License-Identifier: Apache-2.0

/*
Package install turns the manifests that are compiled into the program into the objects of an installation.

	objects, err := install.Objects(install.Options{Namespace: "clusters", Image: "registry.example.com/hub:v1"})
	err = install.Apply(ctx, c, objects, install.ApplyOptions{})

The base is config/install/manifest.yaml, which kustomize builds from the folders of config ("make generate") and the program embeds.
Options change its objects as Go types. A test compares the result with the output of kustomize for the same settings.

A custom hub needs the permissions of its own modules. So the package replaces the rules in the manifests, which are the
stock hub's, by the rules that the program needs.

The configuration file of a hub is in a ConfigMap of one name, and its hash in an annotation of the Pods. A name with a hash,
as kustomize makes it, would leave a ConfigMap behind with each change, and an installation without the file could not find
the installed ConfigMap.

The objects do not contain the comments of the files, which are in the folder config.
*/
package install
