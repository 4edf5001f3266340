// SPDX-License-Identifier: Apache-2.0

// Package config carries the YAML of this folder into Go programs that install it: the commands dev and install of the
// hub, the test kit and the tests. It holds no logic and has no imports.
//
// The folders follow kubebuilder's layout: crd, rbac, hub (the Deployment and its namespace), network-policy, and
// default, which contains all of these; impersonation, which a hub with --impersonate-apps needs in addition;
// configuration and tunnel, components for a hub with a configuration file and for a hub with a listener for agents; agent for remotes
// that the hub cannot reach; admission, who may write a SyncRule; crd/released, the CRD of each release, with which a test compares the present one; prometheus and
// grafana for monitoring the hub, samples for registering a remote, and chart, the same for Helm. Each is built
// with kustomize. The folder test is a separate Go module with the tests that need Helm and Prometheus.
//
// The objects in hub and rbac have no namespace, and full names: default only sets the namespace. The folder install has all objects
// that the command install knows, built with kustomize.
package config

import "embed"

// CRDs holds the CustomResourceDefinitions that the hub needs, as crd/<group>_<plural>.yaml.
//
//go:embed crd/clusterfx.dev_*.yaml
var CRDs embed.FS

// Installation is what kustomize builds from the folder install: all objects of an installation but for the CRD.
//
//go:embed install/manifest.yaml
var Installation []byte

// Agent is the agent in a remote that the hub cannot reach, and AgentKey the Job that makes its key there.
var (
	//go:embed agent/agent.yaml
	Agent []byte
	//go:embed agent/key.yaml
	AgentKey []byte
)
