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

// Ports come from a range below those that systems give to outgoing connections, so that the port
// of a cluster that is stopped for a while is not taken by chance.
const (
	firstPort = 20000
	lastPort  = 29999
)

// portAttempts is how many ports are tried before something else must be wrong.
const portAttempts = 20

// freePort returns a port that nobody listened on just now. Somebody else may still be faster:
// the program that listens on it will say so, and another port is tried.
func freePort(ctx context.Context, addr netip.Addr) (int, error) {
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
