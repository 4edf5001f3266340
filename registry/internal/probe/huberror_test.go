// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

func TestIsHubError(t *testing.T) {
	t.Parallel()
	for errno, want := range map[syscall.Errno]bool{
		syscall.EMFILE: true, syscall.ENFILE: true, syscall.EADDRNOTAVAIL: true, syscall.ECONNREFUSED: false,
	} {
		err := fmt.Errorf("probe: %w", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)})
		if got := isHubError(err); got != want {
			t.Errorf("isHubError(%v) = %v, want %v", err, got, want)
		}
	}
}
