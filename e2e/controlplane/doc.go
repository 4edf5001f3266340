// SPDX-License-Identifier: Apache-2.0

/*
Command controlplane builds the Kubernetes programs of the tests and the demo: kube-apiserver,
kube-controller-manager, kubectl and etcd. Run make controlplane, or

	cd e2e/controlplane && go run .

It puts missing programs into clusterfx/controlplane/VERSION in the user's cache folder, in a few minutes, with Go
alone. With KUBEBUILDER_ASSETS it only checks that folder. Arguments are more versions of kube-apiserver, such as 1.31, or all of them:
the folder versions has a go.mod for each, whose other programs are those of go.mod. go.mod has the versions: k8s.io/kubernetes with its staging
modules, and etcd; for another release change it and KubernetesVersion of e2e/fleet. The linker stamps the version, so
that /version is right.

Some versions take a few staging modules from the next patch release, where a proxy lacks them. Go builds old versions with
the GODEBUG defaults of this module, not of their time: their TLS and HTTP are today's.

An existing program is always complete, and of two builds the second waits. A nested module keeps some 150
requirements of Kubernetes out of the main module. A download would be faster, but go.sum covers the source, which
works on every platform of Go.
*/
package main
