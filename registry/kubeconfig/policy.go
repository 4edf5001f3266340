// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// Policy has the permissions of the operator beyond the safe default, which is the zero value. It is not for tenants:
// nothing in a Secret or in an object widens it. A Policy does not change while it is in use.
type Policy struct {
	// AllowInsecureTLS accepts credentials that turn off the verification of the server's certificate. An attacker on
	// the network can then read the token.
	AllowInsecureTLS bool
	// AllowProxyURL accepts credentials that name a proxy.
	AllowProxyURL bool
	// ProxyFromEnvironment uses the proxy of HTTPS_PROXY and NO_PROXY if the credentials name no proxy. By default the
	// environment is ignored.
	ProxyFromEnvironment bool
	// AllowCIDRs are addresses to dial although they are special, such as 127.0.0.0/8 for a
	// development fleet.
	AllowCIDRs []netip.Prefix
	// DenyCIDRs are addresses never to dial, also if AllowCIDRs has them.
	DenyCIDRs []netip.Prefix
}

// CheckAddr returns nil if the address may be dialled, and otherwise an *Error with
// ReasonAddressNotAllowed. Denied are the addresses of this machine, of its link and of the cloud's
// metadata services, multicast, broadcast, the ranges that the IANA reserves for purposes other than
// hosts, and the ranges that the operator denies. An IPv6 address that contains an IPv4 address (mapped,
// translated, compatible, NAT64, 6to4, Teredo, ISATAP) is checked as both.
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

// guard is the Policy as the ControlContext of a net.Dialer. It runs after name resolution, for each address
// separately, so that a name cannot resolve to one address for the check and to another address for the connection.
func (p Policy) guard(_ context.Context, _, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return place{}.refuse(ReasonAddressNotAllowed,
			"the server's name leads to something that is not an IP address, which the hub does not dial; use another address of the API server (--cluster-server of hub register, spec.server of the Cluster)")
	}
	return p.CheckAddr(target.Addr())
}

// contain reports whether one of the prefixes has the address. Prefixes may be IPv4-mapped.
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

// special describes an address that is denied by default, and returns "" for other addresses. Private addresses are not
// special: most API servers have a private address.
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

// reserved returns the ranges that no host has an address from: this network, protocol assignments, benchmarks,
// the former class E with the broadcast address, the discard prefix, and the deprecated site-local addresses.
func reserved() []string {
	return []string{"0.0.0.0/8", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4", "100::/64", "fec0::/10"}
}

// isMetadata reports whether an address outside the link-local range belongs to a metadata service: of AWS, GCP,
// Scaleway, Alibaba Cloud, Oracle Cloud or Azure.
func isMetadata(addr string) bool {
	switch addr {
	case "169.254.169.254", "fd20:ce::254", "fd00:42::42", "100.100.100.200", "192.0.0.192", "168.63.129.16":
		return true
	}
	return strings.HasPrefix(addr, "fd00:ec2::")
}

// embedded returns the IPv4 addresses that an IPv6 address contains. There may be two: the interface identifier of
// ISATAP is valid with any prefix, including the prefix of 6to4.
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
