// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"strconv"
	"strings"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry"
)

// agentOf returns the remote and the epoch whose app sent a request. If ok is false, no app sent it.
func agentOf(e fleet.AuditEvent) (name registry.ClusterName, epoch int64, ok bool) {
	parts := strings.Split(e.UserAgent, "/") // clusterfx/<replica>/<remote>/<epoch>
	if len(parts) != 4 || parts[0] != "clusterfx" {
		return "", 0, false
	}
	epoch, err := strconv.ParseInt(parts[3], 10, 64)
	return registry.ClusterName(parts[2]), epoch, err == nil
}

// ofRemote returns a filter for the requests from the apps of a remote.
func ofRemote(name registry.ClusterName) func(fleet.AuditEvent) bool {
	return func(e fleet.AuditEvent) bool {
		from, _, ok := agentOf(e)
		return ok && from == name
	}
}
