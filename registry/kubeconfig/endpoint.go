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

// wiring is an endpoint that was checked, and how to reach it.
type wiring struct {
	endpoint Endpoint
	policy   Policy
	server   *url.URL
	proxy    *url.URL       // nil without a proxy
	roots    *x509.CertPool // nil for the CAs of the system
}

// resolve checks everything but addresses, and writes the endpoint in the form that is compared and hashed.
func (e *Endpoint) resolve(from source, p Policy) (w wiring, err error) {
	if w.server, err = parseServer(e.Server, from.server); err != nil {
		return w, err
	}
	e.Server = strings.TrimRight(w.server.String(), "/")
	e.CAKey = cmp.Or(e.CAKey, from.ca.name())
	if e.TLSServerName != "" && !isHost(e.TLSServerName) {
		return w, from.serverName.invalid("is not a host name; write the name that the server's certificate is for")
	}
	if e.ProxyURL != "" {
		if w.proxy, err = parseProxy(e.ProxyURL, from.proxy, p); err != nil {
			return w, err
		}
	}
	if e.Insecure && !p.AllowInsecureTLS {
		return w, from.insecure.refuse(ReasonInsecureTLSNotAllowed,
			"the server's certificate would not be verified; put the certificate of its CA here instead")
	}
	if e.Insecure && len(e.CAData) > 0 {
		return w, from.insecure.invalid("verification of the server's certificate is turned off, but there is a CA to verify it with; remove one of them")
	}
	if len(e.CAData) > 0 {
		authorities, err := parseCertificates(e.CAData, from.ca)
		if err != nil {
			return w, err
		}
		e.CAData, w.roots = encodeCertificates(authorities), x509.NewCertPool()
		for _, authority := range authorities {
			w.roots.AddCert(authority)
		}
	}
	w.endpoint, w.policy = *e, p
	return w, nil
}

// checkAddresses judges IP addresses. Names are judged when they are dialled. What a tunnel may dial, its other end knows.
func (w wiring) checkAddresses(from source) error {
	if w.endpoint.Tunnel != "" {
		return nil
	}
	if err := w.checkHost(w.server, from.server); err != nil || w.proxy == nil {
		return err
	}
	return w.checkHost(w.proxy, from.proxy)
}

func (w wiring) checkHost(u *url.URL, at place) error {
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil //nolint:nilerr // Not an address, but a name: the dial guard checks it.
	}
	return w.policy.checkAddr(addr, at)
}
