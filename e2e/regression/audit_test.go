// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"strconv"
	"strings"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry"
)

// agentOf returns for which remote, and in which epoch of it, a request was sent. It was sent by an app if
// ok is true.
func agentOf(e fleet.AuditEvent) (name registry.ClusterName, epoch int64, ok bool) {
	parts := strings.Split(e.UserAgent, "/") // clusterfx/<replica>/<remote>/<epoch>
	if len(parts) != 4 || parts[0] != "clusterfx" {
		return "", 0, false
	}
	epoch, err := strconv.ParseInt(parts[3], 10, 64)
	return registry.ClusterName(parts[2]), epoch, err == nil
}

// ofRemote returns a filter for the requests that the apps of a remote have sent.
func ofRemote(name registry.ClusterName) func(fleet.AuditEvent) bool {
	return func(e fleet.AuditEvent) bool {
		from, _, ok := agentOf(e)
		return ok && from == name
	}
}
