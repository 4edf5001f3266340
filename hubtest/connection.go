// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"errors"
	"net/http"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// way connects to a server of the pool: through a proxy for the hub, directly for the test.
type way struct {
	name    string
	cluster *fleet.Cluster
	http    *http.Client
	proxy   *fault.Proxy
	direct  client.WithWatch
	door    *door
}

func newWay(s *site, c *fleet.Cluster) (*way, error) {
	w := &way{cluster: c}
	if err := w.connect(s.scheme); err != nil {
		return nil, errors.Join(err, fleettest.Lender().GiveBack(s.context(), c))
	}
	return w, nil
}

func (w *way) connect(scheme *runtime.Scheme) (err error) {
	if w.http, err = rest.HTTPClientFor(w.cluster.Config()); err != nil {
		return err
	}
	w.door = &door{RoundTripper: w.http.Transport}
	w.direct, err = client.NewWithWatch(w.cluster.Config(), client.Options{
		Scheme: scheme, HTTPClient: &http.Client{Transport: w.door},
	})
	if err == nil {
		w.proxy, err = fault.New(w.cluster.Server())
	}
	return err
}

func (w *way) config(account *fleet.Credential) *rest.Config {
	config := w.cluster.Config()
	if account != nil {
		config = account.Config()
	}
	config.Host = "https://" + w.proxy.Addr()
	return config
}

func (w *way) close() {
	w.proxy.Close()
	w.door.closed.Store(true)
	w.http.CloseIdleConnections()
}

// door ends with the test, so that a goroutine that outlives it does not disturb the next.
type door struct {
	http.RoundTripper
	closed atomic.Bool
}

var errEnded = errors.New("the test that this client is from has ended")

func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.closed.Load() {
		return nil, errEnded
	}
	return d.RoundTripper.RoundTrip(r)
}

func (d *door) WrappedRoundTripper() http.RoundTripper { return d.RoundTripper }
