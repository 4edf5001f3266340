// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A request that fails because a ping had no response says the same as one that had no response in time: the network is silent.
func TestClassify_ConnectionLost(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	proxy, err := fault.New(server.URL)
	must(t, err)
	t.Cleanup(proxy.Close)
	trusts, ok := server.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatalf("the server's client has a %T", server.Client().Transport)
	}
	transport := trusts.Clone()
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: 100 * time.Millisecond, PingTimeout: 100 * time.Millisecond}
	t.Cleanup(transport.CloseIdleConnections)
	get := func() error {
		request := testkit.Request(t, http.MethodGet, "https://"+proxy.Addr())
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	must(t, get())
	must(t, proxy.Set(fault.Blackhole()))
	wantClass(t, get(), "TimedOut")
}
