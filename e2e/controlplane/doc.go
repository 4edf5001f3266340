// SPDX-License-Identifier: Apache-2.0

// Command controlplane builds the Kubernetes programs that the tests and the demo run: kube-apiserver,
// kube-controller-manager, kubectl and etcd.
//
// # Usage
//
//	cd e2e/controlplane && go run .     (or, in the root: make controlplane)
//
// It puts them into clusterfx/controlplane/VERSION in the user's cache folder, where e2e/fleet looks
// for them, and builds only what is not there: once per version, a few minutes. Nothing is needed but
// Go. If KUBEBUILDER_ASSETS is set, the programs in that folder are used instead, and this command
// merely checks that they are there.
//
// # How it works
//
// The versions are those of this module's go.mod, which is the whole configuration: k8s.io/kubernetes
// with its staging modules replaced by the release that belongs to it, and etcd. To move to another
// release change them there and the constant KubernetesVersion of e2e/fleet. The linker stamps the
// version into the programs, as a release build does, so that /version tells the truth.
//
// Each program is built in a folder of its own and then moved to its place, so that whoever finds it
// finds all of it. Of two builds at once the second waits for the first.
//
// # Considerations
//
// A nested module keeps the requirements of Kubernetes (some 150 modules, at other versions than
// ours) out of the main module. Building from source takes minutes once, where a download would take
// seconds; but the checksums in go.sum cover it, it works wherever Go modules do, and on every
// platform that Go does.
package main
