// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Connection is where a remote is, and who we are there.
type Connection struct {
	Endpoint   Endpoint
	Credential Credential
}

// Endpoint is the address of an API server and how to verify it, without secrets.
type Endpoint struct {
	// Server is an https URL without credentials, query and fragment; from Parse in lower case up to the path and
	// without a slash at the end.
	Server string
	// TLSServerName must be in the server's certificate. Empty means the host of Server.
	TLSServerName string
	// ProxyURL is an http or socks5 proxy. Empty means none, or that of the environment if the Policy allows it.
	ProxyURL string
	// CAData are CA certificates in PEM. Empty means the system's.
	CAData []byte
	// CAKey says in messages where CAData is from, or should be: a key of the Secret, or of the kubeconfig in it. It is
	// not in the fingerprint.
	CAKey string
	// Insecure turns off the verification of the server.
	Insecure bool
	// Tunnel is the name by which Policy.Tunnel reaches the server. Empty means that the hub dials itself.
	Tunnel string
}

// fingerprintLen is in bytes, before hexadecimals.
const fingerprintLen = 16

// Fingerprint returns a short text that differs for different endpoints and is the same in other processes.
func (e Endpoint) Fingerprint() string {
	h := sha256.New()
	writeParts(h, e.Server, e.TLSServerName, e.ProxyURL, string(e.CAData), strconv.FormatBool(e.Insecure))
	if e.Tunnel != "" {
		writeParts(h, e.Tunnel)
	}
	return hex.EncodeToString(h.Sum(nil)[:fingerprintLen])
}

// writeParts: moving bytes from one text to the next changes the sum.
func writeParts(h hash.Hash, parts ...string) {
	for _, part := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
}

type source struct{ server, serverName, proxy, ca, insecure place }

// normalize checks everything but addresses, and writes the endpoint in the form that is compared and hashed.
func (e *Endpoint) normalize(from source, p Policy) error {
	_, err := e.authorities(from, p)
	return err
}

func (e *Endpoint) authorities(from source, p Policy) ([]*x509.Certificate, error) {
	server, err := parseServer(e.Server, from.server)
	if err != nil {
		return nil, err
	}
	e.Server = strings.TrimRight(server.String(), "/")
	e.CAKey = cmp.Or(e.CAKey, from.ca.name())
	if e.TLSServerName != "" && !isHost(e.TLSServerName) {
		return nil, from.serverName.invalid("is not a host name; write the name that the server's certificate is for")
	}
	if e.ProxyURL != "" {
		if _, err := parseProxy(e.ProxyURL, from.proxy, p); err != nil {
			return nil, err
		}
	}
	if e.Insecure && !p.AllowInsecureTLS {
		return nil, from.insecure.refuse(ReasonInsecureTLSNotAllowed,
			"the server's certificate would not be verified; put the certificate of its CA here instead")
	}
	if len(e.CAData) == 0 {
		return nil, nil
	}
	if e.Insecure {
		return nil, from.insecure.invalid("verification of the server's certificate is turned off, but there is a CA to verify it with; remove one of them")
	}
	chain, err := parseCertificates(e.CAData, from.ca)
	if err != nil {
		return nil, err
	}
	e.CAData = encodeCertificates(chain)
	return chain, nil
}

// checkAddresses judges IP addresses. Names are judged when they are dialled. What a tunnel may dial, its other end knows.
func (e *Endpoint) checkAddresses(from source, p Policy) error {
	if e.Tunnel != "" {
		return nil
	}
	if err := checkHost(e.Server, from.server, p); err != nil || e.ProxyURL == "" {
		return err
	}
	return checkHost(e.ProxyURL, from.proxy, p)
}

func checkHost(raw string, at place, p Policy) error {
	u, err := url.Parse(raw)
	if err != nil {
		return at.invalid("is not a URL; write it as https://host:port")
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil //nolint:nilerr // Not an address, but a name: the dial guard checks it.
	}
	return p.checkAddr(addr, at)
}
