// SPDX-License-Identifier: Apache-2.0

/*
Package install turns the manifests that are compiled into the program into the objects of an installation.

# Usage

	objects, err := install.Objects(install.Options{Namespace: "clusters", Image: "registry.example.com/hub:v1"})
	err = install.Write(os.Stdout, objects)                       // for kubectl apply -f -
	err = install.Apply(ctx, c, objects, install.ApplyOptions{})  // or at once

# How it works

The package reads the manifests of config/default. The kustomization.yaml of that folder and of the folders below it
name the files and their order. The package applies the transformation that the first kustomization.yaml requests: objects
without a namespace, and ServiceAccounts in bindings that name none, get the namespace of the installation. Then it
applies the values of Options.

# Considerations

kustomize itself is not compiled in: it has too many dependencies for this purpose, and a test
compares the objects with the output of kustomize for the same files.

A custom hub needs the permissions of its own modules. So the package replaces the rules in the manifests, which are the
stock hub's, by the rules that the program needs.

The configuration file of a hub is in a ConfigMap of one name, and its hash in an annotation of the Pods. A name with a hash,
as kustomize makes it, would leave a ConfigMap behind with each change, and an installation without the file could not find
the installed ConfigMap.

The objects do not contain the comments of the files, which are in the folder config.
*/
package install
