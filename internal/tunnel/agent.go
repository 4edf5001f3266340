// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/coder/websocket"
	"github.com/go-logr/logr"
)

// Agent is the side of the remote. It connects to the hub, and connects what comes from there to one address.
type Agent struct {
	Hub string // Hub is the address of the hub's listener: wss://host, or ws://host; the path is Path if there is none. Required.
	// HubKeys are fingerprints of keys of the hub. Another hub is refused. Required.
	HubKeys []string
	// Key reads the agent's key. It is called for each connection, and every few seconds: with another key, Run connects again. Required.
	Key func() (Key, error)
	// To is the API server, as host:port. Its name is resolved for each connection. Required.
	To      string
	Roots   *x509.CertPool // Roots verify the certificate of wss. Default: those of the system.
	Version string
	Log     logr.Logger // Required.

	protocols []string // of tests
	proxy     string   // of tests: the environment's is read once, and not for loopback
}

// Check connects once, and returns nil when the hub has accepted the agent, and the agent reaches its API server.
func (a *Agent) Check(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", a.To)
	if err != nil {
		return fmt.Errorf("reach the API server, --to: %w", err)
	}
	_ = conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	connected := false
	err = a.session(ctx, anyReplica, func([]string) {
		connected = true
		cancel()
	})
	if connected || errors.Is(err, errSecond) { // The agent that runs is connected.
		return nil
	}
	return err
}

// session lasts as long as a connection. The error says why it has ended, in words for the operator of the agent. accepted is called
// with the names of the hub's replicas, first that of the connection, when the hub has accepted the agent, and when the names change.
func (a *Agent) session(ctx context.Context, replica string, accepted func(replicas []string)) error {
	key, err := a.Key()
	if err != nil {
		return err
	}
	over, err := a.connect(ctx, key, replica)
	if err != nil {
		return err
	}
	s := &served{conn: inner(over), agent: a, accepted: accepted}
	err = s.serve(ctx)
	if s.welcome.Load() {
		return err
	}
	return explainTLS(err, key) // With TLS 1.3, the refusal of a key comes after the handshake.
}

func (a *Agent) connect(ctx context.Context, key Key, replica string) (*tls.Conn, error) {
	address, err := url.Parse(a.Hub)
	if err != nil || address.Host == "" || address.Scheme != "wss" && address.Scheme != "ws" || address.User != nil {
		return nil, errors.New("--hub is not an address such as wss://hub.example.com")
	}
	if address.Path == "" || address.Path == "/" {
		address.Path = Path
	}
	starting, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	proxy := http.ProxyFromEnvironment
	if a.proxy != "" {
		proxy = func(*http.Request) (*url.URL, error) { return url.Parse(a.proxy) }
	}
	t := &http.Transport{
		Proxy: proxy, TLSClientConfig: &tls.Config{RootCAs: a.Roots, MinVersion: tls.VersionTLS12},
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout,
	}
	ws, response, err := websocket.Dial(starting, address.String(), &websocket.DialOptions{ //nolint:bodyclose // The library closes it.
		HTTPClient:      &http.Client{Transport: t},
		HTTPHeader:      http.Header{headerKey: {key.Fingerprint()}, headerVersion: {a.Version}, headerReplica: {replica}},
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, explain(response, err, key)
	}
	conn := outer(context.WithoutCancel(ctx), ws)
	protocols := a.protocols
	if protocols == nil {
		protocols = []string{protocol}
	}
	over := tls.Client(conn, key.config(protocols, func(hub string) error {
		if !slices.Contains(a.HubKeys, hub) {
			return fmt.Errorf("the server has the key %s, which is none of --hub-key, so it is not the hub", hub)
		}
		return nil
	}))
	if err := over.HandshakeContext(starting); err != nil {
		_ = conn.Close()
		return nil, explainTLS(err, key)
	}
	return over, nil
}

// advice is for responses in place of a WebSocket. Nothing that the other side has written is in an error.
func advice(status int) string {
	switch status {
	case http.StatusNotFound:
		return "does --hub lead to the hub's --tunnel-bind-address"
	case http.StatusProxyAuthRequired:
		return "put the password of the proxy into HTTPS_PROXY, as http://user:password@host:port"
	case http.StatusTooManyRequests:
		return "something at this address tries too often with the key of this agent"
	case http.StatusServiceUnavailable:
		return "the hub has no key yet, is starting, or is ending; see its log"
	}
	return "does a proxy on the way let WebSockets pass"
}

func explain(response *http.Response, err error, key Key) error {
	switch {
	case response == nil:
		return fmt.Errorf("connect to --hub: %w", err)
	case response.StatusCode == http.StatusForbidden:
		return notAccepted(key)
	}
	status := response.StatusCode
	return fmt.Errorf("the server at --hub responds with %d %s, not with a WebSocket: %s", status, http.StatusText(status), advice(status))
}

func notAccepted(key Key) error {
	return fmt.Errorf("the hub does not accept this agent's key: in the hub, run hub accept NAME %s", key.Fingerprint())
}

func explainTLS(err error, key Key) error {
	switch text := err.Error(); {
	case strings.Contains(text, "no application protocol"):
		return errProtocol
	case strings.Contains(text, "remote error"): // of the hub, which has refused the key
		return notAccepted(key)
	case errors.Is(err, io.EOF):
		return errEnded
	}
	return fmt.Errorf("agree with the hub: %w", err)
}
