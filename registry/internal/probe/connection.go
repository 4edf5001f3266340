// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Connection is the connection to one endpoint, with its transport and its probe. It outlives epochs, because the probe
// continues while an unreachable remote has no app.
type Connection struct {
	Transport *kubeconfig.Transport
	Endpoint  string // fingerprint
	Server    string // the URL
	// LastReceived is when an app last received a part of a list, in nanoseconds. The app stores it.
	LastReceived atomic.Int64

	shared  Options
	cluster string // the name of the remote
	rank    startqueue.Rank

	rounds     rounds                 // the probes
	credential atomic.Pointer[string] // fingerprint

	identified   time.Time       // when the probe last read the identity; used by the probe only
	versioned    time.Time       // when the probe of a healthy remote last read the version; used by the probe only
	identifiedOn net.Conn        // the TCP connection on which it read the identity; used by the probe only
	lastUsed     net.Conn        // the TCP connection of the probe's last request, nil if it got none; used by the probe only
	ctx          context.Context //nolint:containedctx // A Connection is a lifetime.
	cancel       context.CancelFunc

	hurried atomic.Bool // requests were sent beside the identity, since the last failure

	beside Beside                // until the first contact; used by the probe only
	early  atomic.Pointer[early] // the preflight beside the first contact; nil for none, and once it is taken

	loop  *preflightLoop // nil before the first questions; used by the actor only
	loops sync.WaitGroup // waits for the loop, and for the requests beside the first contact
}

// Options are the dependencies that all Connections of a registry share.
type Options struct {
	Contacts *startqueue.Queue
	Tracer   *telemetry.Tracer
	Metrics  *telemetry.Metrics
	// Starved reports whether the hub was short of CPU time since a time.
	Starved func(since time.Time) bool
	// Redact replaces credentials in a text.
	Redact func(string) string
	Pauses Pauses
}

// Target is the API server of a Connection, and how that begins.
type Target struct {
	Cluster   string
	Transport *kubeconfig.Transport
	Endpoint  kubeconfig.Endpoint
	// Credential is the first credential's fingerprint; see Swap.
	Credential string
	Rank       startqueue.Rank
	Pace       Pace
	Beside     Beside
}

// New returns a Connection that has sent nothing. It ends with ctx, or when it is closed after Start. If it is used for
// Try only, the caller must close the transport.
func New(ctx context.Context, o Options, t Target) *Connection {
	if o.Pauses == (Pauses{}) {
		o.Pauses = NewPauses()
	}
	c := &Connection{
		shared: o, cluster: t.Cluster, Transport: t.Transport, Endpoint: t.Endpoint.Fingerprint(), Server: t.Endpoint.Server,
		rank: t.Rank, beside: t.Beside,
	}
	c.rounds.pace, c.rounds.probe, c.rounds.heard = t.Pace, c.probe, kubeconfig.LastRead
	c.credential.Store(&t.Credential)
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// Credential returns the fingerprint of the credential.
func (c *Connection) Credential() string { return *c.credential.Load() }

// Swap replaces the credential, and probes and preflights with the new credential.
func (c *Connection) Swap(credential kubeconfig.Credential, fingerprint string) error {
	if err := c.Transport.Swap(credential); err != nil {
		return err
	}
	c.credential.Store(&fingerprint)
	c.ProbeNow()
	c.PreflightNow()
	return nil
}

// Cancel cancels the probe and the preflight and does not wait for them.
func (c *Connection) Cancel() {
	c.cancel()
	c.rounds.end()
}

// Close ends the probe and the preflight, closes every TCP connection, and waits for both, which end with their
// requests.
func (c *Connection) Close() {
	c.Cancel()
	c.rounds.work.Wait()
	c.loops.Wait()
	c.Transport.Close()
}
