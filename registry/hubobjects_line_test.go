// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// hubLine is a connection to a hub that can be cut, and that can lead to another hub.
type hubLine struct {
	mu   sync.Mutex // protects the fields
	host string
	next http.RoundTripper // nil while the line is cut
	ends map[*http.Request]context.CancelFunc
}

// use makes the connections of a registry go through the line.
func (l *hubLine) use(o *registry.Options) {
	o.Hub.Wrap(func(http.RoundTripper) http.RoundTripper { return l })
}

// lead leads the line to a hub; nil cuts it. Requests in progress end.
func (l *hubLine) lead(t *testing.T, to *fleet.Cluster) {
	t.Helper()
	host, next := "", http.RoundTripper(nil)
	if to != nil {
		var err error
		if next, err = rest.TransportFor(to.Config()); err != nil {
			t.Fatal(err)
		}
		host = strings.TrimPrefix(to.Config().Host, "https://")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.host, l.next = host, next
	for _, end := range l.ends {
		end()
	}
}

func (l *hubLine) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, end := context.WithCancel(r.Context())
	r = r.Clone(ctx)
	l.mu.Lock()
	next := l.next
	r.URL.Host = l.host
	l.ends[r] = end
	l.mu.Unlock()
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.ends, r)
	})
	if next == nil {
		end()
		return nil, errors.New("the line is cut")
	}
	response, err := next.RoundTrip(r)
	if err != nil {
		end()
	}
	return response, err
}

func newHubLine(t *testing.T) *hubLine {
	t.Helper()
	l := &hubLine{ends: map[*http.Request]context.CancelFunc{}}
	l.lead(t, fleettest.Cluster(t, "hub"))
	return l
}
