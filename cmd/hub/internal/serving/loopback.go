// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"fmt"
	"net"
	"net/netip"
)

// loopback returns a loopback address, or Nowhere. There is no exception: a page for debugging has no other protection.
func loopback(address string) (string, error) {
	if address == "" || address == Nowhere {
		return Nowhere, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	if host == "localhost" {
		return net.JoinHostPort("127.0.0.1", port), nil // whatever the resolver says
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return "", fmt.Errorf("%s is not an address of loopback: use 127.0.0.1:%s, and kubectl port-forward to reach it", address, port)
	}
	return address, nil
}
