// SPDX-License-Identifier: Apache-2.0

// Package kind tests a whole installation on real nodes: a hub of two Pods in a management cluster,
// deployed from config/default as a user deploys it, and two remotes, each in a node of its own.
//
// # Usage
//
//	make e2e-kind
//	make e2e-kind KIND_NODE_IMAGE=kindest/node:local HUB_IMAGE=ghcr.io/clusterfx/hub:v0.1.0
//
// It needs Docker, about 4 GB of memory and five minutes. KIND_NODE_IMAGE is the node image, by
// default the one that kind was released with. HUB_IMAGE is an image of the stock hub that Docker
// has; without it one is made of the binary alone. The run writes what it did, with versions and
// times, to dist/e2e-kind.md; docs/e2e.md has such a page.
//
// # How it works
//
// The test is a list of steps that build upon each other; the first one that fails ends it, and
// shows what the management cluster knows. Whatever a user would type is typed: kubectl and the
// programs hub and podcount run as processes, with kubeconfigs in files. Images are loaded into the
// nodes, so no registry is asked.
//
// # Considerations
//
// What nodes add to the tests of other packages is small, and cannot be had without them: that the
// Pods are admitted and run as the manifests say, find the remotes from inside a cluster, renew and
// pass on their lease when one of them is killed, and that images work. Everything that needs no
// node is tested where it is faster and can be repeated more often.
package kind
