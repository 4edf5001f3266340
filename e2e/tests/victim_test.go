// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/hostile"
)

// Paths of the requests.
const (
	listPath  = "/api/v1/configmaps"
	watchPath = "/api/v1/configmaps?watch=true"
	beginPath = "/api/v1/configmaps?watch=true&sendInitialEvents=true"
)

// victim is a plain HTTP client of a hostile server, without limits of its own.
type victim struct {
	*http.Client
	anonymous *http.Transport
	server    *hostile.Server
	url       string
}

// newVictim starts a server with the script, which is closed when the test ends.
func newVictim(t *testing.T, script hostile.Script) *victim {
	t.Helper()
	s, err := hostile.New(fleettest.Cluster(t, "real").Kubeconfig(), script)
	if err != nil {
		t.Fatalf("New(%s): %v", script.Name, err)
	}
	t.Cleanup(s.Close)
	config, err := clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig())
	must(t, err)
	tlsConfig, err := rest.TLSConfigFor(config)
	must(t, err)
	transport := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	authenticated, err := rest.HTTPWrappersForConfig(config, transport)
	must(t, err)
	return &victim{Client: &http.Client{Transport: authenticated}, anonymous: transport, server: s, url: config.Host}
}

func named(t *testing.T, name string) hostile.Script {
	t.Helper()
	script, found := hostile.Named(name)
	if !found {
		t.Fatalf("there is no script %q", name)
	}
	return script
}

func (v *victim) get(ctx context.Context, path string, most int64) (*http.Response, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url+path, nil)
	if err != nil {
		return nil, nil, err
	}
	response, err := v.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, most))
	return response, body, err
}

type closing struct {
	net.Conn
	closed chan struct{}
	close  func()
}

func (c *closing) Close() error {
	c.close()
	return c.Conn.Close()
}

// watchConns returns a channel with the connections that the client makes.
func (v *victim) watchConns() <-chan *closing {
	conns := make(chan *closing, 1)
	v.anonymous.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &closing{Conn: conn, closed: make(chan struct{})}
		c.close = sync.OnceFunc(func() { close(c.closed) })
		conns <- c
		return c, nil
	}
	return conns
}
