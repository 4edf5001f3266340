// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Errors of an agent say what its operator can do.

func parseURL(hub string) (*url.URL, error) {
	u, err := url.Parse(hub)
	if err != nil || u.Host == "" || u.Scheme != "wss" && u.Scheme != "ws" || u.User != nil {
		return nil, errors.New("--hub is not an address such as wss://hub.example.com")
	}
	return u, nil
}

// explain is for the WebSocket. Nothing that the other side has written is in the error.
func (a *Agent) explain(response *http.Response, err error, key Key) error {
	if response != nil {
		switch response.StatusCode {
		case http.StatusForbidden:
			return notAccepted(key)
		case http.StatusTooManyRequests:
			return errors.New("the hub has had too many failed attempts from this address: wait some minutes, and look for agents with wrong keys")
		case http.StatusServiceUnavailable:
			return errors.New("the hub does not accept agents yet: it has no key, or is just starting or ending; see its log")
		case http.StatusProxyAuthRequired:
			return errors.New("the proxy asks for a password: put it into HTTPS_PROXY as http://user:password@host:port")
		case http.StatusNotFound:
			return fmt.Errorf("the server at --hub knows no path %s: does the address lead to the hub's --tunnel-bind-address", Path)
		}
		return fmt.Errorf("the server at --hub responds with status %d, not with a WebSocket: does a proxy on the way let WebSockets pass", response.StatusCode)
	}
	var unknownAuthority x509.UnknownAuthorityError
	var other x509.HostnameError
	switch {
	case errors.As(err, &unknownAuthority):
		return errors.New("the certificate of --hub is signed by no authority that this agent knows: name it with --ca-file")
	case errors.As(err, &other):
		return errors.New("the certificate of --hub is for another name: correct --hub")
	case strings.Contains(err.Error(), "Proxy Authentication Required"): // net/http has no type for it.
		return errors.New("the proxy asks for a password: put it into HTTPS_PROXY as http://user:password@host:port")
	}
	return fmt.Errorf("connect to --hub: %w", withoutURL(err))
}

// withoutURL drops what could have a password.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func notAccepted(key Key) error {
	return fmt.Errorf("the hub does not accept this agent's key: in the hub, run hub accept NAME %s", key.Fingerprint())
}

// explainEnd is for a connection that the hub has not accepted: with TLS 1.3, the refusal of a key comes after the handshake.
func explainEnd(err error, key Key) error {
	if errors.Is(err, errSecond) || errors.Is(err, errEnded) || errors.Is(err, errSilent) {
		return err
	}
	return explainTLS(err, key)
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
