// SPDX-License-Identifier: Apache-2.0

package hubconfig

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"
)

// CIDRs is a flag that may be repeated: ranges of addresses, or single ones.
type CIDRs []netip.Prefix

var _ pflag.Value = (*CIDRs)(nil)

// Set adds one or more ranges, separated by commas.
func (p *CIDRs) Set(s string) error {
	for one := range strings.SplitSeq(s, ",") {
		prefix, err := parsePrefix(strings.TrimSpace(one))
		if err != nil {
			return err
		}
		*p = append(*p, prefix)
	}
	return nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return prefix, fmt.Errorf("%q is not a range of addresses: write it as 10.0.0.0/8", s)
	}
	if prefix != prefix.Masked() {
		return prefix, fmt.Errorf("%s has bits behind its length: did you mean %s?", s, prefix.Masked())
	}
	return prefix, nil
}

// String returns the ranges in the syntax of Set.
func (p *CIDRs) String() string {
	var all []string
	for _, one := range *p {
		all = append(all, one.String())
	}
	return strings.Join(all, ",")
}

// Type is the name of the value in the help.
func (p *CIDRs) Type() string { return "cidr" }
