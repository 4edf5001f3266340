// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
)

// Below the ports of outgoing connections, so that the port of a stopped cluster is not taken by chance.
const (
	firstPort = 20000
	lastPort  = 29999
)

const portAttempts = 20

// FreePort returns a free port that outgoing connections do not use. Another process may take it first.
func FreePort(ctx context.Context, addr netip.Addr) (int, error) {
	var config net.ListenConfig
	var failures []error
	for range portAttempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(addr.String(), strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
		failures = append(failures, err)
	}
	return 0, errors.Join(failures...)
}
