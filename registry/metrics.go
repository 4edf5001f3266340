// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// tenancy registers an app's collectors with the label "cluster" and unregisters them all when
// the app ends, so that the next app of the same remote can register its own.
type tenancy struct {
	prometheus.Registerer

	mu         sync.Mutex // protects the fields
	collectors []prometheus.Collector
	ended      bool
}

var _ prometheus.Registerer = (*tenancy)(nil)

func newTenancy(base prometheus.Registerer, name ClusterName) *tenancy {
	labels := prometheus.Labels{"cluster": string(name)}
	return &tenancy{Registerer: prometheus.WrapRegistererWith(labels, base)}
}

// Register registers the collector until the app ends.
func (t *tenancy) Register(c prometheus.Collector) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return ErrStopped
	}
	if err := t.Registerer.Register(c); err != nil {
		return err
	}
	t.collectors = append(t.collectors, c)
	return nil
}

// MustRegister registers the collectors until the app ends. It panics where Register would fail,
// as its interface demands; the panic fails the module, not the hub.
func (t *tenancy) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := t.Register(c); err != nil {
			panic(err)
		}
	}
}

func (t *tenancy) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for _, c := range t.collectors {
		t.Unregister(c)
	}
	t.collectors = nil
}
