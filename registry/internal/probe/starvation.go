// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"syscall"
)

// isOurs reports whether an error of a request is the hub's and not the remote's: it has no file
// descriptors, ports or buffers left to make a connection with.
func isOurs(err error) bool {
	for _, ours := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, ours) {
			return true
		}
	}
	return false
}
