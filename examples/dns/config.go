// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Config is the configuration of the module by an operator.
type Config struct {
	// Server is the address of the primary server of the zone, as host or host:port. Default: none, and the
	// module does nothing.
	Server string `json:"server,omitempty"`
	// Zone is the zone that the server is authoritative for, such as clusters.example.com. Needed with a server.
	Zone string `json:"zone,omitempty"`
	// Key is the TSIG key that requests are signed with. Needed with a server.
	Key Key `json:"key,omitzero"`
	// TTLSeconds is how long resolvers may keep a record. Default: 300.
	TTLSeconds int32 `json:"ttlSeconds,omitempty"`
	// TimeoutSeconds bounds each request to the server. Default: 5.
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// LockSeconds is how long the changes of a hub that was killed in the middle of one keep the next hub
	// waiting. Default: 30.
	LockSeconds int32 `json:"lockSeconds,omitempty"`
}

// Key is the TSIG key and its place.
type Key struct {
	// Name of the key in the configuration of the server.
	Name string `json:"name,omitempty"`
	// Algorithm is hmac-sha224, hmac-sha256, hmac-sha384 or hmac-sha512. Default: hmac-sha256.
	Algorithm string `json:"algorithm,omitempty"`
	// SecretRef names the Secret that holds the key.
	SecretRef SecretRef `json:"secretRef,omitzero"`
}

// SecretRef names an entry of a Secret in the credentials namespace.
type SecretRef struct {
	// Name of the Secret.
	Name string `json:"name,omitempty"`
	// Key of the entry, whose value is the key in base64, as tsig-keygen prints it. Default: secret.
	Key string `json:"key,omitempty"`
}

// Defaults returns the values of fields that the operator does not set.
func Defaults() Config {
	return Config{
		TTLSeconds: 300, TimeoutSeconds: 5, LockSeconds: 30,
		Key: Key{Algorithm: "hmac-sha256", SecretRef: SecretRef{Key: "secret"}},
	}
}

// Validate is called when the hub starts.
func (c Config) Validate() error {
	if c.Server == "" {
		return nil
	}
	var problems []error
	refuse := func(bad bool, problem string) {
		if bad {
			problems = append(problems, errors.New(problem))
		}
	}
	_, isDomain := dns.IsDomainName(c.Zone)
	host, _, err := net.SplitHostPort(c.address())
	refuse(err != nil || host == "", "server: use host or host:port, and brackets for an IPv6 address with a port")
	refuse(c.Zone == "" || !isDomain || len(bare(c.Zone)) > maxZone,
		fmt.Sprintf("zone: use the name of the zone, such as clusters.example.com, of at most %d characters", maxZone))
	refuse(c.Key.Name == "", "key.name: use the name of the key in the configuration of the server")
	refuse(algorithms()[c.Key.Algorithm] == "",
		"key.algorithm: use one of "+strings.Join(slices.Sorted(maps.Keys(algorithms())), ", "))
	refuse(c.Key.SecretRef.Name == "", "key.secretRef.name: use the name of a Secret in the credentials namespace")
	refuse(c.Key.SecretRef.Key == "", "key.secretRef.key: use the name of an entry of the Secret")
	for name, limit := range map[string]struct{ value, most int32 }{
		"ttlSeconds": {c.TTLSeconds, 604800}, "timeoutSeconds": {c.TimeoutSeconds, 20}, "lockSeconds": {c.LockSeconds, 600},
	} {
		refuse(limit.value < 1 || limit.value > limit.most, fmt.Sprintf("%s: use 1 to %d", name, limit.most))
	}
	slices.SortFunc(problems, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

// algorithms are the allowed algorithms, by the names that operators write.
func algorithms() map[string]string {
	return map[string]string{
		"hmac-sha224": dns.HmacSHA224, "hmac-sha256": dns.HmacSHA256,
		"hmac-sha384": dns.HmacSHA384, "hmac-sha512": dns.HmacSHA512,
	}
}

// address returns the server with its port.
func (c Config) address() string {
	if _, _, err := net.SplitHostPort(c.Server); err == nil {
		return c.Server
	}
	return net.JoinHostPort(strings.Trim(c.Server, "[]"), "53")
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
