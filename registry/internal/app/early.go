// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/restmapper"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Early are the discovery documents of a remote, requested before its app starts. Only the app decodes them.
type Early struct {
	host      *Common
	remote    EarlyRemote
	documents *restmapper.Early
}

// EarlyRemote is a remote whose app has not started.
type EarlyRemote struct {
	Name     state.ClusterName
	Endpoint kubeconfig.Endpoint
	Timeout  time.Duration     // of a request
	Base     http.RoundTripper // the connection to the remote
}

// NewEarly returns Early that Request completes.
func (h *Common) NewEarly(r EarlyRemote) *Early {
	return &Early{host: h, remote: r, documents: h.Mappings.NewEarly()}
}

// Request requests the documents with the limits that the app will have, until ctx ends. No middleware sees it.
func (e *Early) Request(ctx context.Context) {
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

func (r *Remote) earlyDocuments() *restmapper.Early {
	if r.Early == nil {
		return nil
	}
	return r.Early.documents
}
