// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"syscall"
)

// isHubError: the hub has no file descriptors, ports or buffers for a connection.
func isHubError(err error) bool {
	for _, exhausted := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, exhausted) {
			return true
		}
	}
	return false
}
