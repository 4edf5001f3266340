// SPDX-License-Identifier: Apache-2.0

// Package kind tests a whole installation on real nodes: a hub of two Pods in a management cluster, deployed from
// config/default as a user deploys it, and two remotes, each in a separate node.
//
// # Usage
//
//	make e2e-kind
//	make e2e-kind KIND_NODE_IMAGE=kindest/node:local HUB_IMAGE=ghcr.io/clusterfx/hub:v0.1.0
//
// It needs Docker, about 4 GB of memory and five minutes. KIND_NODE_IMAGE is the node image, by default the image of
// kind's release. HUB_IMAGE is an image of the stock hub in Docker; without it the test builds an image of the binary
// alone. The run writes its steps, with versions and times, to dist/e2e-kind.md and the log.
//
// # How it works
//
// The test is a list of steps that build upon each other; the first failing step ends it, and prints the objects of the
// management cluster. The test runs a user's commands: kubectl and the programs hub and podcount run as processes, with
// kubeconfigs in files. Images are loaded into the nodes, so no registry is needed.
//
// # Considerations
//
// Nodes add only a few facts to the tests of other packages: that the Pods are admitted and run according to the
// manifests, reach the remotes from inside a cluster, renew and pass on their lease when one of them is killed, and
// that images work. Everything that needs no node is tested in other packages, where tests are faster and can be
// repeated more often.
package kind
