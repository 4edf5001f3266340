// SPDX-License-Identifier: Apache-2.0

package registry

import "github.com/clusterfx/clusterfx/registry/state"

// ClusterName names a remote: a DNS label, unique within the hub.
type ClusterName = state.ClusterName

// Status is a snapshot of one remote, as the registry last saw it.
type Status = state.Status
