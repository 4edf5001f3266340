// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/registry/internal/actor"
	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/state"
)

// WithClient lends f a client: reads from the app's cache, writes to the remote. It returns f's error as it is.
//
// It never waits for the network. An unusable remote is a NotReadyError at once (also a warm one, and after Stop or Remove), an
// unknown name ErrNotFound, a standby ErrStandby, another replica's remote ErrElsewhere. f holds no lock, so it may take its
// time and call the registry. Its context ends with ctx, or with cause ErrStopped when the app is stopped, which does not wait:
// later requests fail with ErrStopped. When another app replaces this one, f has ten seconds more, and the cause is ErrReplaced.
// f must not keep the client.
//
// Reading a kind that no module watches makes the app watch it; WithCluster gives a reader that does not.
func (r *Registry) WithClient(
	ctx context.Context, name ClusterName, f func(ctx context.Context, remote client.Client) error,
) error {
	return r.WithCluster(ctx, name, func(ctx context.Context, c cluster.Cluster) error {
		return f(ctx, c.GetClient())
	})
}

// WithCluster is WithClient with the whole cluster, for example GetAPIReader for live reads.
func (r *Registry) WithCluster(
	ctx context.Context, name ClusterName, f func(ctx context.Context, remote cluster.Cluster) error,
) (err error) {
	if r.remotes.Apps.Tracer != nil {
		var span trace.Span
		ctx, span = r.remotes.Apps.Tracer.Start(ctx, "WithClient", string(name))
		defer func() { telemetry.End(span, err, reasonOfLease) }()
	}
	ctx, cancel := r.within(ctx)
	defer cancel()
	if r.by != nil && r.by.App.Context.Err() != nil {
		return context.Cause(r.by.App.Context)
	}
	a, err := r.actor(name)
	if err != nil {
		return cmp.Or(r.whyClosed(name), err)
	}
	lent, err := lender(a)
	if err != nil {
		return err
	}
	ctx, end := transport.Within(ctx, lent.Context())
	defer end()
	c, err := lent.LendTo(r.by)
	if err != nil {
		return fmt.Errorf("make a client for %s: %w", name, err)
	}
	return f(ctx, lentCluster{Cluster: lent.Manager, client: c, by: r.by})
}

// lender returns an error as soon as a stop is posted, although the actor may not have handled it yet.
func lender(a *actor.Actor) (*app.Life, error) {
	now := a.Current()
	if a.StopPosted() {
		info := now.Status
		info.State = state.StateStopping
		info.Summarize()
		return nil, notReady(info)
	}
	if now.Epoch == nil {
		return nil, notReady(now.Status)
	}
	return now.Epoch, nil
}

// whyClosed returns the error of Options.Gate for a remote.
func (r *Registry) whyClosed(name ClusterName) error {
	if r.remotes.Apps.Gate == nil {
		return nil
	}
	_, err := r.remotes.Apps.Gate(name)
	return err
}

// IsElsewhere reports whether another replica runs a remote or will: Options.Gate matches ErrElsewhere, also for warm ones. One
// neither registered here nor elsewhere has left the hub, as far as this replica knows.
func (r *Registry) IsElsewhere(name ClusterName) bool {
	return errors.Is(r.whyClosed(name), ErrElsewhere)
}

// lentCluster has a client that works until the lease ends, also when another app has replaced this app.
type lentCluster struct {
	cluster.Cluster
	client client.Client
	by     *contain.Container // the hub part that has the lease; nil for the hub itself
}

// GetCache returns the app's cache. Code that a hub part adds to it belongs to the hub part's module.
func (c lentCluster) GetCache() ctrlcache.Cache {
	all, ok := c.Cluster.GetCache().(*cache.Cache)
	if c.by == nil || !ok {
		return c.Cluster.GetCache()
	}
	return all.As(c.by.Module, c.by, false)
}

func (c lentCluster) GetFieldIndexer() client.FieldIndexer { return c.GetCache() }

// GetConfig counts requests of a hub part's clients as the hub part's own.
func (c lentCluster) GetConfig() *rest.Config {
	if c.by == nil {
		return c.Cluster.GetConfig()
	}
	return c.by.Config(c.Cluster.GetConfig())
}

// GetHTTPClient counts as GetConfig does.
func (c lentCluster) GetHTTPClient() *http.Client {
	if c.by == nil {
		return c.Cluster.GetHTTPClient()
	}
	own := *c.Cluster.GetHTTPClient()
	own.Transport = c.by.RoundTripper(own.Transport)
	return &own
}

func (c lentCluster) GetClient() client.Client { return c.client }

func notReady(info Status) error {
	return &NotReadyError{Name: info.Name, State: info.State, Reason: info.Reason, Message: info.Message, Problem: info.Problem}
}

func reasonOfLease(err error) string {
	reason := app.ReasonOf(err)
	switch {
	case reason != app.ReasonError:
	case errors.Is(err, ErrNotReady):
		return "NotReady"
	case errors.Is(err, ErrNotFound):
		return "NotFound"
	}
	return reason
}

// AwaitWrites returns nil when no write for the remote is in flight: at once if there is none, if the name is unknown, or without
// Options.Gate. When ctx ends first it returns the cause and how many are in flight. It does not stop writes: the caller must
// close the gate for the remote before. Then nil means that no write which passed the gate reaches an API server later.
//
// Counted are the mutating requests that ask the gate for this remote: those of its app and of leases to the remote, and those of
// its app to the hub, but not those of hub parts to the hub, nor what modules send elsewhere. A write is in flight until it has a
// response or is known not to have been sent. With any other end (a canceled context, a lost connection, a gateway's 502, 503 or
// 504) it may still take effect, and counts until it would have timed out: Desired.Client.Timeout after it began, ten seconds
// towards the hub. So AwaitWrites takes at most that time. Writes remain in flight after the app has ended and the remote is
// forgotten. A stream that begins with a write, such as exec, is a write until its first response; with watch or follow in its
// query it has no timeout until then, and ends with the app.
func (r *Registry) AwaitWrites(ctx context.Context, name ClusterName) error {
	return r.remotes.Apps.Writes.Await(ctx, string(name))
}
