// SPDX-License-Identifier: Apache-2.0

/*
Package install turns the manifests that are compiled into the program into the objects of an installation.

# Usage

	objects, err := install.Objects(install.Options{Namespace: "clusters", Image: "registry.example.com/hub:v1"})
	err = install.Write(os.Stdout, objects)                       // for kubectl apply -f -
	err = install.Apply(ctx, c, objects, install.ApplyOptions{})  // or at once

# How it works

The manifests are those of config/default. The files to read, and their order, are what the kustomization.yaml of
that folder and of the folders below it name. What is done to them is what the first one asks kustomize for: objects
without a namespace, and ServiceAccounts in bindings that name none, get the one of the installation. On top of it
come the values of Options.

# Considerations

kustomize itself is not compiled in: it has too many dependencies for this purpose, and a test
compares the objects with the output of kustomize for the same files.

A hub of one's own needs the rights of its own modules. So the rules in the manifests, which are the stock hub's, are
replaced by the rules that the program needs.

The configuration file of a hub is in a ConfigMap of one name, and its hash in an annotation of the Pods. A name with a hash,
as kustomize makes it, would leave a ConfigMap behind with each change, and an installation without the file could not find
the one that is installed.

Objects have lost the comments of the files. Whoever wants to read those finds them in config.
*/
package install
