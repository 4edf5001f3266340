// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func TestPolicy_CheckAddr(t *testing.T) {
	t.Parallel()
	safest := kubeconfig.Policy{}
	allowing := func(texts ...string) kubeconfig.Policy { return kubeconfig.Policy{AllowCIDRs: prefixes(texts...)} }
	denying := func(texts ...string) kubeconfig.Policy { return kubeconfig.Policy{DenyCIDRs: prefixes(texts...)} }
	for name, c := range map[string]struct {
		policy kubeconfig.Policy
		allow  []string
		deny   []string
	}{
		"default": {
			safest,
			[]string{
				"1.1.1.1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "192.0.1.1", "198.17.255.255", "198.20.0.1", "2001:db8::1", "100:0:0:1::1", "fd00::1", "fd12:3456::1",
				"::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::1", "2606:4700::1",
				"::ffff:0:10.0.0.1", "2001:db8::5efe:10.0.0.1", "2001:db8::200:5efe:10.0.0.1",
			},
			[]string{
				"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.0.1", "169.254.170.2", "224.0.0.1", "239.1.1.1",
				"255.255.255.255", "100.100.100.200", "168.63.129.16", "192.0.0.192",
				"::", "::1", "::1%eth0", "fe80::1", "fe80::1%eth0", "ff02::1", "ff01::1", "ff0e::1", "fd00:ec2::254", "fd20:ce::254", "fd00:42::42",
				"::ffff:127.0.0.1", "::ffff:127.0.0.1%eth0", "::ffff:169.254.169.254", "::ffff:0.0.0.0",
				"::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::1",
				"2001:0:4136:e378:8000:63bf:80ff:fffe",
				"240.0.0.1", "254.255.255.254", "192.0.0.1", "192.0.0.171", "198.18.0.1", "198.19.255.255", "100::1", "fec0::1", "feff::1",
				"64:ff9b::f000:1", "2002:c612:1::1",
				"::ffff:0:127.0.0.1", "::ffff:0:169.254.169.254", "2001:db8::5efe:127.0.0.1", "2001:db8::200:5efe:169.254.169.254",
				"2002:a00:1::5efe:127.0.0.1", "2002:7f00:1::5efe:10.0.0.1",
			},
		},
		"loopback allowed": {
			allowing("127.0.0.0/8"),
			[]string{"127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "::ffff:0:127.0.0.1", "2001:db8::5efe:127.0.0.1"},
			[]string{"::1", "2002:a9fe:a9fe::5efe:127.0.0.1", "169.254.169.254", "0.0.0.0"},
		},
		"allowed as a mapped prefix": {allowing("::ffff:127.0.0.0/104"), []string{"127.0.0.1"}, []string{"::1", "128.0.0.1.invalid"}},
		"all of IPv4 as mapped":      {kubeconfig.Policy{AllowCIDRs: prefixes("::ffff:0.0.0.0/96"), DenyCIDRs: prefixes("::ffff:10.0.0.0/104")}, []string{"127.0.0.1", "11.0.0.1"}, []string{"10.0.0.1", "::1"}},
		"every bit of Teredo counts": {denying("10.1.2.3/32"), []string{"2001:0:4136:e378:8000:63bf:f5fe:fdfd"}, []string{"2001:0:4136:e378:8000:63bf:f5fe:fdfc"}},
		"an IPv6 network allowed":    {allowing("fe80::/10", "64:ff9b::/96"), []string{"fe80::1%eth0", "64:ff9b::7f00:1"}, []string{"127.0.0.1"}},
		"denied by the operator": {denying("10.0.0.0/8", "2001:db8::/32"), []string{"11.0.0.1"}, []string{
			"10.1.1.1", "::ffff:10.1.1.1", "64:ff9b::a01:101", "2001:db8::1%x",
			"::10.1.1.1", "::ffff:0:10.1.1.1", "2002:a01:101::1", "2001:0:4136:e378:8000:63bf:f5fe:fefe",
			"2606:4700::5efe:10.1.1.1", "2606:4700::200:5efe:10.1.1.1", "2002:b00:1::5efe:10.1.1.1",
		}},
		"denied wins over allowed":     {kubeconfig.Policy{AllowCIDRs: prefixes("0.0.0.0/0"), DenyCIDRs: prefixes("127.0.0.1/32")}, []string{"127.0.0.2", "169.254.169.254"}, []string{"127.0.0.1", "::ffff:127.0.0.1"}},
		"an invalid prefix is nothing": {kubeconfig.Policy{AllowCIDRs: []netip.Prefix{{}}, DenyCIDRs: []netip.Prefix{{}}}, []string{"1.1.1.1"}, []string{"127.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, text := range c.allow {
				if err := c.policy.CheckAddr(netip.MustParseAddr(text)); err != nil {
					t.Errorf("%s: got error %v, want the address allowed", text, err)
				}
			}
			for _, text := range c.deny {
				addr, _ := netip.ParseAddr(text)
				err := c.policy.CheckAddr(addr)
				if got, ok := errors.AsType[*kubeconfig.Error](err); !ok || got.Reason != kubeconfig.ReasonAddressNotAllowed {
					t.Errorf("%s: got error %v, want %s", text, err, kubeconfig.ReasonAddressNotAllowed)
					continue
				}
				checkText(t, err.Error())
			}
		})
	}
}
