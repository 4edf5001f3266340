// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"errors"
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// way is the connection to a server that a site has taken from the pool: through a proxy for the hub, and directly for
// the test.
type way struct {
	name    string // for failures
	machine *machine
	proxy   *fault.Proxy
	direct  client.WithWatch
	door    *door
}

func newWay(s *site, m *machine) (*way, error) {
	w := &way{machine: m, door: &door{RoundTripper: m.http.Transport}}
	var err error
	w.direct, err = client.NewWithWatch(m.cluster.Config(), client.Options{
		Scheme: s.scheme, HTTPClient: &http.Client{Transport: w.door},
	})
	if err == nil {
		w.proxy, err = fault.New(m.cluster.Server())
	}
	if err != nil {
		return nil, errors.Join(err, shared.pool.giveBack(s.context(), m))
	}
	return w, nil
}

// config returns the configuration of an account, nil for the administrator, through the proxy.
func (w *way) config(account *fleet.Credential) *rest.Config {
	config := w.machine.cluster.Config()
	if account != nil {
		config = account.Config()
	}
	config.Host = "https://" + w.proxy.Addr()
	return config
}

// close closes all connections of the way, and refuses further requests.
func (w *way) close() {
	w.proxy.Close()
	w.door.closed.Store(true)
}

// door forwards the requests of a test until the test has ended, so that a goroutine that outlives its test cannot
// disturb the next test.
type door struct {
	http.RoundTripper
	closed atomic.Bool
}

var errEnded = errors.New("the test that this client is from has ended")

// RoundTrip sends the request unless the test has ended.
func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.closed.Load() {
		return nil, errEnded
	}
	return d.RoundTripper.RoundTrip(r)
}

// WrappedRoundTripper returns the transport below, as client-go likes to know.
func (d *door) WrappedRoundTripper() http.RoundTripper { return d.RoundTripper }
