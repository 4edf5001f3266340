// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/prefetch"
	"github.com/clusterfx/clusterfx/registry/internal/restmapper"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Early are the discovery documents of a remote, and the lists with which its app begins if they are known, requested before the
// app starts. Only the app decodes them.
type Early struct {
	host      *Host
	remote    EarlyRemote
	documents *restmapper.Early
	ahead     *prefetch.Ahead
}

// EarlyRemote is a remote whose app has not started.
type EarlyRemote struct {
	Name     state.ClusterName
	Endpoint kubeconfig.Endpoint
	Timeout  time.Duration     // of a request
	Base     http.RoundTripper // the connection to the remote
	Lists    *prefetch.Lists   // of the last app; nil if there was none
}

// NewEarly returns Early that Request completes.
func (h *Host) NewEarly(r EarlyRemote) *Early {
	return &Early{host: h, remote: r, documents: h.Mappings.NewEarly(), ahead: h.Ahead.New(r.Lists, r.Endpoint.Fingerprint())}
}

// Drop ends the requests for lists, whose responses no app needs. It does not block.
func (e *Early) Drop() { e.ahead.Drop() }

// Request requests the documents with the limits that the app will have, and sends the lists, until ctx ends. No middleware sees
// the requests.
func (e *Early) Request(ctx context.Context) {
	var lists sync.WaitGroup
	defer lists.Wait()
	lists.Go(func() { e.host.sendAhead(ctx, e.ahead, e.remote) })
	e.requestDocuments(ctx)
}

// sendAhead sends lists of a remote ahead, until ctx ends or their responses have begun.
func (h *Host) sendAhead(ctx context.Context, ahead *prefetch.Ahead, r EarlyRemote) {
	ahead.Send(ctx, prefetch.Request{
		Transport: r.Base, Server: r.Endpoint.Server, UserAgent: fmt.Sprintf("clusterfx/%s/%s/ahead", h.Replica, r.Name),
	})
}

func (e *Early) requestDocuments(ctx context.Context) {
	h, r := e.host, e.remote
	if ctx.Err() != nil { // The remote may be gone, with its metrics.
		e.documents.Request(ctx, "", nil)
		return
	}
	chain := &transport.Chain{
		Base: r.Base, Fence: ctx, UserAgent: fmt.Sprintf("clusterfx/%s/%s/discovery", h.Replica, r.Name),
		Timeout: r.Timeout, Meter: meter.NewLimiter(h.Schemas, int64(h.Limits.MaxCacheBytes)),
		Traffic:   h.Metrics.Traffic(string(r.Name)),
		Intercept: h.Tracer.Requests(string(r.Name), telemetry.ToRemote),
	}
	config := kubeconfig.RESTConfig(r.Endpoint, chain)
	e.documents.Request(ctx, config.Host, &http.Client{Transport: config.Transport})
}

// earlyDocuments returns the documents of Early, which may be nil.
func (o *Options) earlyDocuments() *restmapper.Early {
	if o.Early == nil {
		return nil
	}
	return o.Early.documents
}

// beginAhead begins to send the first lists of the app ahead, unless they were sent before the app. The returned function, which
// must be called at the end of the start, drops what the app has not needed, and ends the record of its own first lists.
func (e *Epoch) beginAhead(ctx context.Context) (settle func()) {
	o := &e.options
	if o.Early != nil && o.Early.ahead.Pending() {
		e.ahead = o.Early.ahead
	} else if e.ahead = e.Ahead.New(o.Lists, o.Desired.Endpoint.Fingerprint()); e.ahead != nil {
		remote := EarlyRemote{Name: o.Name, Endpoint: o.Desired.Endpoint, Base: o.Base}
		e.sending.Go(func() { e.sendAhead(ctx, e.ahead, remote) })
	}
	return func() {
		e.lists.End()
		e.ahead.Drop()
	}
}

// FirstLists are the lists with which the app has begun. They are complete when the start has ended.
func (e *Epoch) FirstLists() *prefetch.Lists { return e.lists }
