// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net/http"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/restmapper"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Early are the discovery documents of a remote, requested before its app starts. Only the app decodes them.
type Early struct {
	host      *Host
	remote    EarlyRemote
	documents *restmapper.Early
}

// EarlyRemote is a remote whose app has not started.
type EarlyRemote struct {
	Name    state.ClusterName
	Desired state.Desired     // with its defaults
	Base    http.RoundTripper // the connection to the remote
}

// NewEarly returns Early that Request completes.
func (h *Host) NewEarly(r EarlyRemote) *Early {
	return &Early{host: h, remote: r, documents: h.Mappings.NewEarly()}
}

// Request requests the documents with the limits that the app will have, until ctx ends. No middleware sees the requests.
func (e *Early) Request(ctx context.Context) {
	h, r := e.host, e.remote
	chain := &transport.Chain{
		Base: r.Base, Fence: ctx, UserAgent: fmt.Sprintf("clusterfx/%s/%s/discovery", h.Replica, r.Name),
		Timeout: r.Desired.Client.Timeout, Meter: meter.NewLimiter(h.Schemas, int64(h.Limits.MaxCacheBytes)),
		Traffic:   h.Metrics.Traffic(string(r.Name)),
		Intercept: h.Tracer.Requests(string(r.Name), telemetry.ToRemote),
	}
	config := kubeconfig.RESTConfig(r.Desired.Endpoint, chain)
	e.documents.Request(ctx, config.Host, &http.Client{Transport: config.Transport})
}

// earlyDocuments returns the documents of Early, which may be nil.
func (o *Options) earlyDocuments() *restmapper.Early {
	if o.Early == nil {
		return nil
	}
	return o.Early.documents
}
