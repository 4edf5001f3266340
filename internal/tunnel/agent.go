// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

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

	protocols []string      // of tests
	proxy     string        // of tests: the environment's is read once, and not for loopback
	patience  time.Duration // of tests
}

const (
	// maxBackoff is the longest pause between attempts; the pauses are random from zero on, so that agents do not return all at once.
	minBackoff, maxBackoff = time.Second, 20 * time.Second
	// agentPatience is how long an agent tries before it ends itself: a new process has read its proxies, names and files again.
	agentPatience = 5 * time.Minute
	keyEvery      = 10 * time.Second
)

// ErrNotConnected is of an agent that has been without a connection for five minutes.
var ErrNotConnected = errors.New("there was no connection to the hub for too long")

// Run connects again and again until ctx ends. It returns ErrNotConnected if that has not worked for five minutes.
func (a *Agent) Run(ctx context.Context) error {
	patience := a.patience
	if patience == 0 {
		patience = agentPatience
	}
	last, tries := time.Now(), 0
	for {
		connected, err := a.session(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // The end was asked for.
		}
		if tries++; connected {
			last, tries = time.Now(), 0
		}
		if time.Since(last) > patience {
			return fmt.Errorf("%w; the last attempt: %w", ErrNotConnected, err)
		}
		wait := backoff(tries)
		a.Log.Info("Not connected to the hub", "why", err.Error(), "retryIn", wait.Round(time.Millisecond).String())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func backoff(tries int) time.Duration {
	most := min(minBackoff<<min(tries, 10), maxBackoff)
	return rand.N(most) //nolint:gosec // It spreads agents, and protects nothing.
}

// Check connects once, and returns nil when the hub has accepted the agent, and the agent reaches its API server.
func (a *Agent) Check(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", a.To)
	if err != nil {
		return fmt.Errorf("reach the API server, --to: %w", err)
	}
	_ = conn.Close()
	key, err := a.Key()
	if err != nil {
		return err
	}
	s, err := a.connect(ctx, key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	accept := s.accept
	s.accept = func() {
		accept()
		cancel()
	}
	accepted, err := s.serve(ctx)
	switch {
	case accepted, errors.Is(err, errSecond): // The agent that runs is connected.
		return nil
	case ctx.Err() != nil:
		return errSilent
	}
	return explainEnd(err, key)
}

// session lasts as long as a connection. err is why it has ended.
func (a *Agent) session(ctx context.Context) (connected bool, err error) {
	key, err := a.Key()
	if err != nil {
		return false, err
	}
	s, err := a.connect(ctx, key)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() { a.watchKey(ctx, s, key, cancel) })
	if connected, err = s.serve(ctx); !connected {
		err = explainEnd(err, key)
	}
	return connected, err
}

var (
	errNewKey = errors.New("the agent has a new key")
	errSilent = errors.New("the hub has not accepted the agent in time")
)

// watchKey also ends a connection that the hub has not accepted in time.
func (a *Agent) watchKey(ctx context.Context, s *served, now Key, end context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
		return
	case <-s.accepted:
		a.Log.Info("Connected to the hub", "key", now.Fingerprint())
	case <-time.After(handshakeTimeout):
		end(errSilent)
		return
	}
	tick := time.NewTicker(keyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if key, err := a.Key(); err == nil && key.Fingerprint() != now.Fingerprint() {
			end(errNewKey)
			return
		}
	}
}

func (a *Agent) connect(ctx context.Context, key Key) (*served, error) {
	address, err := hubURL(a.Hub)
	if err != nil {
		return nil, err
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
	ws, response, err := websocket.Dial(starting, address, &websocket.DialOptions{ //nolint:bodyclose // The library closes it.
		HTTPClient: &http.Client{Transport: t}, HTTPHeader: http.Header{headerKey: {key.Fingerprint()}},
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, a.explain(response, err, key)
	}
	conn := outer(context.WithoutCancel(ctx), ws)
	protocols := a.protocols
	if protocols == nil {
		protocols = []string{protocolAgent}
	}
	over := tls.Client(conn, key.config(protocols, func(hub, _ string) error {
		if !slices.Contains(a.HubKeys, hub) {
			return fmt.Errorf("the server has the key %s, which is none of --hub-key, so it is not the hub", hub)
		}
		return nil
	}))
	if err := over.HandshakeContext(starting); err != nil {
		_ = conn.Close()
		return nil, explainTLS(err, key)
	}
	return newServed(inner(over), a.Version, a.Log, a.pipe), nil
}

func hubURL(hub string) (string, error) {
	u, err := parseURL(hub)
	if err != nil {
		return "", err
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = Path
	}
	return u.String(), nil
}
