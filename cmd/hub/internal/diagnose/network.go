// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

const (
	dialTimeout = 5 * time.Second
	// certificateWarning is how long before its end a server's certificate should be renewed.
	certificateWarning = 14 * 24 * time.Hour
)

// network returns false if later checks cannot run.
func (t Target) network(ctx context.Context, r *Report) bool {
	server, err := url.Parse(t.Endpoint.Server)
	if err != nil || server.Hostname() == "" {
		r.fail(checkAddress, "correct the server's URL", "%q is not the URL of a server", t.Endpoint.Server)
		return false
	}
	if t.Endpoint.ProxyURL != "" {
		r.warn(checkAddress, "", "the hub reaches %s through a proxy, so the proxy resolves its address", t.Endpoint.Server)
		return true
	}
	port := server.Port()
	if port == "" {
		port = "443"
	}
	addrs, ok := t.lookUp(ctx, server.Hostname(), r)
	if !ok {
		return false
	}
	connection, ok := dial(ctx, addrs, port, r)
	if !ok {
		return false
	}
	defer func() { _ = connection.Close() }()
	return t.handshake(ctx, connection, server.Hostname(), r)
}

// lookUp returns what a hub would dial.
func (t Target) lookUp(ctx context.Context, host string, r *Report) ([]netip.Addr, bool) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		r.fail(checkAddress, "correct the name in the server's URL, or the DNS", "the name %s cannot be resolved on this machine: %v", host, err)
		return nil, false
	}
	for _, addr := range found {
		if err := t.Policy.CheckAddr(addr.Unmap()); err != nil {
			advice := flagFor(t.Policy, err, func(p kubeconfig.Policy) error { return p.CheckAddr(addr.Unmap()) })
			r.fail(checkAddress, advice, "a hub refuses %s: %v", host, err)
			return nil, false
		}
	}
	return found, true
}

func dial(ctx context.Context, addrs []netip.Addr, port string, r *Report) (net.Conn, bool) {
	var texts []string
	var last error
	for _, addr := range addrs {
		address := net.JoinHostPort(addr.Unmap().String(), port)
		begin := time.Now()
		connection, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
		if err == nil {
			r.ok(checkAddress, "%s accepted a connection after %s", address, time.Since(begin).Round(time.Millisecond/10))
			return connection, true
		}
		texts, last = append(texts, address), err
	}
	r.fail(checkAddress, "check that the API server runs, and the network on the way to it: firewalls, security groups, VPNs",
		"no connection to %s: %v", strings.Join(texts, ", "), last)
	return nil, false
}

func (t Target) handshake(ctx context.Context, connection net.Conn, host string, r *Report) bool {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.Endpoint.TLSServerName}
	if config.ServerName == "" {
		config.ServerName = host
	}
	if len(t.Endpoint.CAData) > 0 {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(t.Endpoint.CAData)
	}
	config.InsecureSkipVerify = t.Endpoint.Insecure //nolint:gosec // The credentials request it, and the report contains a warning.
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	secure := tls.Client(connection, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		advice := "put the certificate of the authority into the kubeconfig, or correct the server's name"
		if ctx.Err() != nil {
			advice = "check the API server and its load balancer: one of them accepts connections but sends no response"
		}
		r.fail(checkTLS, advice, "no secure connection as %s: %v", config.ServerName, t.Cluster.Quote(err.Error()))
		return false
	}
	certificate := secure.ConnectionState().PeerCertificates[0]
	end := certificate.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case t.Endpoint.Insecure:
		r.warn(checkTLS, "put the certificate of the authority into the kubeconfig", "the certificate of the server is not verified")
	case time.Until(certificate.NotAfter) < certificateWarning:
		r.warn(checkTLS, "renew the certificate of the API server", "the certificate of the server ends at %s", end)
	default:
		r.ok(checkTLS, "the certificate is good for %s until %s", config.ServerName, end)
	}
	return true
}
