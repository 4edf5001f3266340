// SPDX-License-Identifier: Apache-2.0

/*
Package kind tests a whole installation on real nodes: a hub of two Pods, deployed from config/default, and two
remotes, each in a node of its own.

	make e2e-kind
	make e2e-kind KIND_NODE_IMAGE=kindest/node:local HUB_IMAGE=ghcr.io/clusterfx/hub:v0.1.0

It needs Docker, about 4 GB of memory and five minutes. The default images are those of kind's release and of the
binary alone. The run writes dist/e2e-kind.md and logs it. Its steps run a user's commands and build upon each
other; the first failure ends it and prints the management cluster's objects. It shows only what needs nodes: that the
Pods are admitted and run, reach the remotes, pass on their lease when one is killed, and that images work.
*/
package kind
