// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
	"k8s.io/apimachinery/pkg/types"
)

func good() Config {
	c := Defaults()
	c.Server, c.Zone = "ns.example.com", "example.com"
	c.Key.Name, c.Key.SecretRef.Name = "key", "secret"
	return c
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string // part of the error; empty for a valid configuration
	}{
		"all there":          {func(*Config) {}, ""},
		"no server":          {func(c *Config) { *c = Config{Server: ""} }, ""},
		"a port":             {func(c *Config) { c.Server = "[2001:db8::1]:5353" }, ""},
		"an IPv6 address":    {func(c *Config) { c.Server = "2001:db8::1" }, ""},
		"a port alone":       {func(c *Config) { c.Server = ":53" }, "server:"},
		"no zone":            {func(c *Config) { c.Zone = "" }, "zone:"},
		"a bad zone":         {func(c *Config) { c.Zone = "example..com" }, "zone:"},
		"the longest zone":   {func(c *Config) { c.Zone = strings.Repeat("a.", maxZone/2) }, ""},
		"a longer zone":      {func(c *Config) { c.Zone = strings.Repeat("a.", maxZone/2) + "aaa" }, "zone:"},
		"no key":             {func(c *Config) { c.Key.Name = "" }, "key.name:"},
		"no Secret":          {func(c *Config) { c.Key.SecretRef.Name = "" }, "key.secretRef.name:"},
		"no entry":           {func(c *Config) { c.Key.SecretRef.Key = "" }, "key.secretRef.key:"},
		"a weak algorithm":   {func(c *Config) { c.Key.Algorithm = "hmac-md5" }, "key.algorithm:"},
		"no TTL":             {func(c *Config) { c.TTLSeconds = 0 }, "ttlSeconds:"},
		"an endless timeout": {func(c *Config) { c.TimeoutSeconds = 21 }, "timeoutSeconds:"},
		"an endless lock":    {func(c *Config) { c.LockSeconds = 601 }, "lockSeconds:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := good()
			tc.change(&c)
			err := c.Validate()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v", err)
			}
		})
	}
}

func TestConfig_Address(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"ns.example.com": "ns.example.com:53", "ns.example.com:5353": "ns.example.com:5353",
		"2001:db8::1": "[2001:db8::1]:53", "[2001:db8::1]": "[2001:db8::1]:53",
	} {
		if got := (Config{Server: server}).address(); got != want {
			t.Errorf("%s: got address %s", server, got)
		}
	}
}

func TestRecordOf(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"https://192.0.2.1:6443":          "A 192.0.2.1",
		"https://[2001:db8::1]:6443":      "AAAA 2001:db8::1",
		"https://[::ffff:192.0.2.1]":      "A 192.0.2.1",
		"https://[fe80::1%25eth0]:6443":   "AAAA fe80::1",
		"https://API.Example.com:6443/k8": "CNAME api.example.com",
		"":                                "none",
		"https://":                        "error",
		"https://a..b:6443":               "error",
		"::":                              "error",
	} {
		got := "none"
		r, err := recordOf(server, 60)
		if err != nil {
			got = "error"
		} else if r != nil {
			got = r.String()
			if back, ok := read(r.at("x.example.com.")); !ok || back != *r {
				t.Errorf("%s: record reads back as %v", server, back)
			}
		}
		if got != want {
			t.Errorf("%s: got record %s", server, got)
		}
	}
}

func TestOwner(t *testing.T) {
	t.Parallel()
	const id = "0b2c7f2e-5a5c-4e0a-9c4e-1a8f0e6f3b11"
	o := owner{hub: id, cluster: types.UID(id), attempt: id}
	mark := o.at("x.example.com.", 60)
	if len(o.String()) > 255 {
		t.Error("ownership mark does not fit into one string")
	}
	if back, ok := readOwner(mark); !ok || back != o {
		t.Errorf("ownership mark reads back as %+v", back)
	}
	for _, text := range []string{
		"", "hello", "clusterfx/2 hub=a cluster=b attempt=c", "clusterfx/1 hub=a cluster=b attempt=c d",
		"clusterfx/1 cluster=b hub=a attempt=c", "clusterfx/1  hub=a cluster=b attempt=c",
	} {
		if o, ok := readOwner(&dns.TXT{Txt: []string{text}}); ok {
			t.Errorf("%q reads as the ownership mark %+v", text, o)
		}
	}
}
