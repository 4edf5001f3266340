// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxURL and maxHost bound a URL and the host in it, in bytes.
const (
	maxURL  = 2048
	maxHost = 253
)

// parseServer accepts https://host, with an optional port and plain path. It never repeats a refused URL, which may
// contain a password.
func parseServer(raw string, at place) (*url.URL, error) {
	if raw == "" {
		return nil, at.invalid("there is no server; write the address of the API server as https://host:port")
	}
	if scheme, _, found := strings.Cut(raw, "://"); !found || !strings.EqualFold(scheme, "https") {
		return nil, at.refuse(ReasonSchemeNotAllowed,
			"the server does not begin with https://, so that credentials would travel in the clear or nowhere; write https://host:port")
	}
	u, err := parseURL(raw, at)
	if err != nil {
		return nil, err
	}
	if !isPlainPath(u) {
		return nil, at.invalid("the path of the server has dots, empty parts or unusual characters; " +
			"write it as it is after redirects, for example https://host/k8s/clusters/a")
	}
	u.Host = strings.ToLower(u.Host)
	return u, nil
}

// parseProxy accepts http://host:port and socks5://host:port. net/http would offer an https proxy the client
// certificate for the API server.
func parseProxy(raw string, at place, p Policy) (*url.URL, error) {
	if !p.AllowProxyURL {
		return nil, at.refuse(ReasonProxyNotAllowed,
			"connections would go through a proxy; remove it, or ask the operator of the hub for --allow-proxy-url")
	}
	u, err := parseURL(raw, at)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "socks5" {
		return nil, at.invalid("the proxy is neither an http:// nor a socks5:// URL; other kinds are not supported")
	}
	if strings.Trim(u.Path, "/") != "" {
		return nil, at.invalid("the proxy's URL has a path; write it as http://host:port")
	}
	return u, nil
}

func parseURL(raw string, at place) (*url.URL, error) {
	const remedy = "; write it as https://host:port, and a proxy as http://host:port"
	if len(raw) > maxURL {
		return nil, at.refuse(ReasonTooLarge, "the URL is longer than 2048 bytes"+remedy)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Opaque != "":
		return nil, at.invalid("is not a URL" + remedy)
	case u.User != nil:
		return nil, at.invalid("the URL has a user name or a password in it; remove everything up to the @" + remedy)
	case strings.ContainsAny(raw, "?#"):
		return nil, at.invalid("the URL has a query or a fragment; remove it" + remedy)
	case !isHost(u.Hostname()):
		return nil, at.invalid("the URL has no host, or one that is neither a DNS name nor an IP address in its usual form" + remedy)
	case !isPort(u):
		return nil, at.invalid("the URL's port is not a number from 1 to 65535" + remedy)
	}
	return u, nil
}

// isHost accepts ASCII DNS names and IP addresses without a zone, but no name that ends in a number: some resolvers
// take 127.1 and 0x7f000001 for addresses.
func isHost(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Zone() == ""
	}
	if host == "" || len(host) > maxHost || strings.Contains(host, "..") || strings.HasPrefix(host, ".") {
		return false
	}
	for _, c := range []byte(host) {
		if !isNameByte(c) && c != '.' {
			return false
		}
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	last := strings.ToLower(labels[len(labels)-1])
	_, err := strconv.ParseUint(last, 0, 64)
	return err != nil && strings.Trim(last, "0123456789") != ""
}

func isNameByte(c byte) bool {
	return c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isPort(u *url.URL) bool {
	if strings.HasSuffix(u.Host, ":") {
		return false
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return u.Port() == "" || err == nil && port > 0
}

// isPlainPath: no server, proxy or client rewrites it.
func isPlainPath(u *url.URL) bool {
	path := strings.TrimSuffix(u.Path, "/")
	if path == "" {
		return u.RawPath == ""
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if strings.Trim(segment, ".") == "" {
			return false
		}
		for _, c := range []byte(segment) {
			if !isNameByte(c) && !strings.ContainsRune(".~:@+=,", rune(c)) {
				return false
			}
		}
	}
	return u.RawPath == ""
}
