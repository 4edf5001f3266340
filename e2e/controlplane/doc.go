// SPDX-License-Identifier: Apache-2.0

// Command controlplane builds the Kubernetes programs that the tests and the demo run: kube-apiserver,
// kube-controller-manager, kubectl and etcd.
//
// # Usage
//
//	cd e2e/controlplane && go run .     (or, in the root: make controlplane)
//
// It puts them into clusterfx/controlplane/VERSION in the user's cache folder, where e2e/fleet looks for them, and
// builds only missing programs: once per version, in a few minutes. It needs only Go. If KUBEBUILDER_ASSETS is set, the
// programs in that folder are used instead, and this command only checks that they exist.
//
// # How it works
//
// This module's go.mod has the versions and is the whole configuration: k8s.io/kubernetes, with its staging modules
// replaced by the matching release, and etcd. For another release change go.mod and the constant KubernetesVersion of
// e2e/fleet. The linker stamps the version into the programs, as a release build does, so that /version is correct.
//
// Each program is built in a separate folder and then moved to its place, so that an existing program is always
// complete. Of two concurrent builds the second waits for the first.
//
// # Considerations
//
// A nested module keeps the requirements of Kubernetes (some 150 modules, at other versions than
// ours) out of the main module. Building from source takes minutes once, where a download would take
// seconds; but the checksums in go.sum cover it, it works wherever Go modules do, and on every
// platform that Go does.
package main
