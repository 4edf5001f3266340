// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// Policy is what the operator permits beyond the safe zero value. It is not for tenants: no Secret or object widens it.
// It must not change while it is in use.
type Policy struct {
	// AllowInsecureTLS accepts credentials that turn off the server's verification. An attacker on the network can then
	// read the token.
	AllowInsecureTLS bool
	// AllowProxyURL accepts credentials that name a proxy.
	AllowProxyURL bool
	// ProxyFromEnvironment uses HTTPS_PROXY and NO_PROXY if the credentials name no proxy. Default: the environment is
	// ignored.
	ProxyFromEnvironment bool
	// AllowCIDRs may be dialled although special, such as 127.0.0.0/8 for a development fleet.
	AllowCIDRs []netip.Prefix
	// DenyCIDRs are never dialled, even if AllowCIDRs has them.
	DenyCIDRs []netip.Prefix
	// Tunnel dials address, as host:port, at the other end of the tunnel with a name. It must end with ctx. The other rules do not
	// apply to it. Default: there are no tunnels.
	Tunnel func(ctx context.Context, name, address string) (net.Conn, error) `json:"-"`
}

// CheckAddr returns an *Error with ReasonAddressNotAllowed unless the address may be dialled. Denied are this machine,
// its link, the cloud's metadata services, multicast, broadcast, the IANA's ranges for purposes other than hosts, and
// what the operator denies. An IPv6 address that contains an IPv4 address (mapped, translated, compatible, NAT64, 6to4,
// Teredo, ISATAP) is checked as both.
func (p Policy) CheckAddr(addr netip.Addr) error {
	return p.checkAddr(addr, place{})
}

func (p Policy) checkAddr(addr netip.Addr, at place) error {
	addr = addr.WithZone("").Unmap()
	inner := embedded(addr)
	denied := func(one netip.Addr) bool { return contain(p.DenyCIDRs, one) }
	if denied(addr) || slices.ContainsFunc(inner, denied) {
		return at.refuse(ReasonAddressNotAllowed, "the operator of the hub denies the address "+addr.String()+
			"; use another address of the API server (--cluster-server of hub register, spec.server of the Cluster), or ask the operator")
	}
	if contain(p.AllowCIDRs, addr) {
		return nil
	}
	kind := special(addr)
	for _, one := range inner {
		if kind == "" && !contain(p.AllowCIDRs, one) {
			kind = special(one)
		}
	}
	if kind == "" {
		return nil
	}
	return at.refuse(ReasonAddressNotAllowed, "the address "+addr.String()+" is "+kind+
		", which the hub does not dial; use another address of the API server (--cluster-server of hub register, spec.server of the Cluster), or ask the operator of the hub for --allow-cidr")
}

// guard is the ControlContext of a net.Dialer. It checks each address after name resolution, so that a name cannot
// resolve to one address for the check and another for the connection.
func (p Policy) guard(_ context.Context, _, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return place{}.refuse(ReasonAddressNotAllowed,
			"the server's name leads to something that is not an IP address, which the hub does not dial; use another address of the API server (--cluster-server of hub register, spec.server of the Cluster)")
	}
	return p.CheckAddr(target.Addr())
}

// contain accepts IPv4-mapped prefixes.
func contain(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, prefix := range prefixes {
		if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
		}
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// special describes an address that is denied by default, or returns "". Private addresses are not: most API servers
// have one.
func special(addr netip.Addr) string {
	switch {
	case !addr.IsValid():
		return "not a valid IP address"
	case addr.IsUnspecified():
		return "unspecified"
	case addr.IsLoopback():
		return "loopback"
	case isMetadata(addr.String()):
		return "a metadata service of a cloud"
	case addr.IsLinkLocalUnicast():
		return "link-local"
	case addr.IsMulticast():
		return "multicast"
	case within(addr, "64:ff9b:1::/48"):
		return "for translation inside a network"
	}
	for _, prefix := range reserved() {
		if within(addr, prefix) {
			return "reserved"
		}
	}
	return ""
}

// reserved has ranges without hosts: this network, protocol assignments, benchmarks, the former class E with broadcast,
// the discard prefix, and deprecated site-local addresses.
func reserved() []string {
	return []string{"0.0.0.0/8", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4", "100::/64", "fec0::/10"}
}

// isMetadata: outside the link-local range, of AWS, GCP, Scaleway, Alibaba Cloud, Oracle Cloud or Azure.
func isMetadata(addr string) bool {
	switch addr {
	case "169.254.169.254", "fd20:ce::254", "fd00:42::42", "100.100.100.200", "192.0.0.192", "168.63.129.16":
		return true
	}
	return strings.HasPrefix(addr, "fd00:ec2::")
}

// embedded may return two: the interface identifier of ISATAP is valid with any prefix, such as 6to4's.
func embedded(addr netip.Addr) []netip.Addr {
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	var inner []netip.Addr
	add := func(four [4]byte) { inner = append(inner, netip.AddrFrom4(four)) }
	last := [4]byte(b[12:])
	switch {
	case within(addr, "64:ff9b::/96"), // NAT64
		within(addr, "::ffff:0:0:0/96"),                                      // IPv4-translated
		within(addr, "::/96") && !addr.IsUnspecified() && !addr.IsLoopback(): // IPv4-compatible
		add(last)
	case within(addr, "2002::/16"): // 6to4
		add([4]byte(b[2:6]))
	case within(addr, "2001::/32"): // Teredo
		add([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
	}
	if [4]byte(b[8:12]) == [4]byte{0, 0, 0x5e, 0xfe} || [4]byte(b[8:12]) == [4]byte{2, 0, 0x5e, 0xfe} { // ISATAP
		add(last)
	}
	return inner
}

func within(addr netip.Addr, prefix string) bool {
	return netip.MustParsePrefix(prefix).Contains(addr)
}
