// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Connection is the connection to one endpoint: the transport, and the probe that reports whether the remote can be
// used. A Connection outlives the epochs that use it, because the probe continues while an unreachable remote has no
// app.
type Connection struct {
	shared    Options
	cluster   string // the name of the remote
	transport *kubeconfig.Transport
	endpoint  string // fingerprint
	server    string
	rank      startqueue.Rank
	redact    func(string) string

	urgent     atomic.Bool // probe every second, because the remote is not known to be healthy
	pace       atomic.Pointer[Pace]
	credential atomic.Pointer[string] // fingerprint

	lastReceived atomic.Int64    // when an app last received a part of a list, in nanoseconds
	identified   time.Time       // when the probe last read the identity; used by the probe only
	identifiedOn net.Conn        // the TCP connection on which it read the identity; used by the probe only
	lastUsed     net.Conn        // the TCP connection of the probe's last request
	kick         chan struct{}   // triggers a probe
	ctx          context.Context //nolint:containedctx // A Connection is a lifetime.
	cancel       context.CancelFunc
	done         chan struct{}

	loop  *preflightLoop // nil before the first questions; used by the actor only
	loops sync.WaitGroup // waits for the loop
}

// retryProbeEvery is the time until the next probe after a failed probe.
const retryProbeEvery = time.Second

// Options are the dependencies that all Connections of a registry share.
type Options struct {
	// Contacts is the queue of first contacts.
	Contacts *startqueue.Queue
	Tracer   *telemetry.Tracer
	Metrics  *telemetry.Metrics
	// Beat starts the detector of starvation if it does not run yet.
	Beat func()
	// Starved reports whether the hub was short of CPU time at any moment since a time.
	Starved func(since time.Time) bool
	// Redact returns a function that redacts the credentials of the hub and of a transport in a text.
	Redact func(*kubeconfig.Transport) func(string) string
}

// Target describes the API server that a Connection leads to, and how the Connection begins.
type Target struct {
	// Cluster is the name of the remote.
	Cluster   string
	Transport *kubeconfig.Transport
	// Endpoint is the endpoint of the transport.
	Endpoint kubeconfig.Endpoint
	// Credential is the fingerprint of the transport's first credential. Swap replaces it.
	Credential string
	// Rank is the rank of the first contact in the queue.
	Rank startqueue.Rank
	// Pace is the first pace. SetPace replaces it.
	Pace Pace
}

// Pace is the time between two probes of a healthy remote, and the timeout of one request of a probe.
type Pace struct{ Period, Timeout time.Duration }

// Outcome is the outcome of one probe.
type Outcome struct {
	Endpoint, Credential string // fingerprints, of the probe
	OK                   bool
	Reason, Message      string // when not OK
	Refused              bool   // it failed because of the credential
	ID, Version          string
}

// New returns a Connection that sends no request yet. The Connection ends with ctx, or when it is closed after Start.
// The caller of New closes the transport of a Connection that is used for Try only.
func New(ctx context.Context, o Options, t Target) *Connection {
	c := &Connection{
		shared: o, cluster: t.Cluster, transport: t.Transport, endpoint: t.Endpoint.Fingerprint(), server: t.Endpoint.Server,
		rank: t.Rank, redact: o.Redact(t.Transport), kick: make(chan struct{}, 1), done: make(chan struct{}),
	}
	c.pace.Store(&t.Pace)
	c.credential.Store(&t.Credential)
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// Start starts the probe. report is called with each outcome, from the goroutine of the probe.
func (c *Connection) Start(report func(Outcome)) {
	c.shared.Beat()
	go c.run(c.ctx, report)
}

// Endpoint returns the fingerprint of the endpoint.
func (c *Connection) Endpoint() string { return c.endpoint }

// Credential returns the fingerprint of the credential.
func (c *Connection) Credential() string { return *c.credential.Load() }

// Server returns the URL of the API server.
func (c *Connection) Server() string { return c.server }

// Transport returns the transport.
func (c *Connection) Transport() *kubeconfig.Transport { return c.transport }

// LastReceived returns the time, in nanoseconds, at which an app last received a part of a list over this Connection. The app stores it.
func (c *Connection) LastReceived() *atomic.Int64 { return &c.lastReceived }

// Swap replaces the credential, and probes and preflights with the new credential.
func (c *Connection) Swap(credential kubeconfig.Credential, fingerprint string) error {
	if err := c.transport.Swap(credential); err != nil {
		return err
	}
	c.credential.Store(&fingerprint)
	c.ProbeNow()
	c.PreflightNow()
	return nil
}

// SetPace changes the pace of the probe. If urgent, the probe runs every second.
func (c *Connection) SetPace(p Pace, urgent bool) {
	c.pace.Store(&p)
	c.urgent.Store(urgent)
}

// Cancel cancels the probe and the preflight and does not wait for them.
func (c *Connection) Cancel() { c.cancel() }

// Close ends the probe and the preflight, and closes every TCP connection. It waits for both to return, which they do
// as soon as their requests are canceled. The Connection must have been started.
func (c *Connection) Close() {
	c.cancel()
	<-c.done
	c.loops.Wait()
	c.transport.Close()
}

// ProbeNow triggers a probe.
func (c *Connection) ProbeNow() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// run probes the remote until ctx ends. It waits for its place in the queue of first contacts before the first probe.
func (c *Connection) run(ctx context.Context, report func(Outcome)) {
	defer close(c.done)
	last, excused := Outcome{}, 0
	release, err := c.shared.Contacts.Acquire(ctx, min(c.rank, startqueue.RankFailed))
	if err != nil {
		return
	}
	for {
		began := time.Now()
		outcome, err := c.probe(ctx, last)
		release()
		if ctx.Err() != nil {
			return
		}
		c.count(outcome, time.Since(began))
		pause := c.pause(err == nil)
		switch {
		case c.isDelayedByApp(err, began):
		case c.isHubFault(err, began) && excused < maxExcused:
			excused++
			pause = 0
		default:
			report(outcome)
			last = outcome
		}
		if err == nil {
			excused = 0
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-c.kick:
			last = Outcome{}
		case <-ctx.Done():
		}
		wait.Stop()
	}
}

// count records the metrics of a probe, also of a probe that failed because of the hub.
func (c *Connection) count(outcome Outcome, took time.Duration) {
	c.shared.Metrics.ObserveProbe(c.cluster, outcome.Reason, took)
}

// maxExcused is how many consecutive failures are attributed to the hub. A hub that is always short of CPU time must
// still detect in time that a remote is gone.
const maxExcused = 1

// isHubFault reports whether the hub caused the failure of a probe, so that the failure does not describe the remote:
// there was no response while the hub was starved, or the hub had no resources to send the request.
func (c *Connection) isHubFault(err error, began time.Time) bool {
	return err != nil && (isHubError(err) || errors.Is(err, context.DeadlineExceeded) && c.shared.Starved(began))
}

// isDelayedByApp reports whether a probe timed out because its response waits, on the same TCP connection, behind a
// response to an app. Over a slow network a list may take minutes.
func (c *Connection) isDelayedByApp(err error, began time.Time) bool {
	return errors.Is(err, context.DeadlineExceeded) && c.lastReceived.Load() > began.UnixNano()
}

// pause returns the time to wait until the next probe.
func (c *Connection) pause(ok bool) time.Duration {
	if !ok || c.urgent.Load() {
		return retryProbeEvery
	}
	period := c.pace.Load().Period
	return time.Duration(float64(period) * (0.9 + 0.2*rand.Float64()))
}

// identifyInterval is how often the probe reads the identity and the version of a healthy remote. The probe also reads
// them whenever another cluster may have appeared behind the address: at the first contact, when the remote becomes
// reachable again, with another credential, and on a new TCP connection.
const identifyInterval = time.Minute

// isFresh reports whether the identity and the version of the last outcome are recent enough to be kept.
func (c *Connection) isFresh(last Outcome) bool {
	return last.OK && last.ID != "" && time.Since(c.identified) < identifyInterval
}

// probe checks the health of the remote and, unless the last outcome is fresh, its identity and version. The outcome
// describes the error that probe returns.
func (c *Connection) probe(ctx context.Context, last Outcome) (Outcome, error) {
	ctx, span := c.shared.Tracer.Start(ctx, "probe", c.cluster)
	defer span.End()
	outcome := Outcome{Endpoint: c.endpoint, Credential: *c.credential.Load(), ID: last.ID, Version: last.Version}
	err := c.query(ctx, &outcome, last)
	if err != nil {
		outcome.fail(err)
		c.shared.Tracer.FailRequest(span, err)
		return outcome, err
	}
	outcome.OK = true
	return outcome, nil
}

// fail describes an error in the outcome.
func (o *Outcome) fail(err error) {
	o.OK, o.Refused = false, kubeconfig.IsRefusal(err)
	o.Reason, o.Message = kubeconfig.Classify(err)
}

// query sends the requests of a probe and completes the outcome. At the first contact the identity is enough to show
// that the remote is healthy, because the API server reads it from its storage; later query also checks the health.
func (c *Connection) query(ctx context.Context, outcome *Outcome, last Outcome) error {
	if c.isFresh(last) {
		if err := c.healthy(ctx); err != nil || c.lastUsed == c.identifiedOn {
			return err
		}
	}
	c.identified = time.Now()
	var err error
	if outcome.ID, err = c.identity(ctx); err != nil {
		return err
	}
	c.identifiedOn = c.lastUsed
	if first := last.Endpoint == ""; outcome.ID == "" || !first {
		if err := c.healthy(ctx); err != nil {
			return err
		}
	}
	outcome.Version, err = c.version(ctx)
	return err
}

// healthy returns nil if the API server is ready or, where the credentials have no access to /readyz, if the API server
// responds at all.
func (c *Connection) healthy(ctx context.Context) error {
	_, err := c.get(ctx, "readyz")
	var status *kubeconfig.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusForbidden || status.Code == http.StatusNotFound) {
		_, err = c.get(ctx, "version")
	}
	return err
}

// version returns the version of the API server.
func (c *Connection) version(ctx context.Context) (string, error) {
	body, err := c.get(ctx, "version")
	if err != nil {
		return "", err
	}
	var v struct{ GitVersion string }
	if err := json.Unmarshal(body, &v); err != nil || !isShort(v.GitVersion) || !c.hasNoSecret(v.GitVersion) {
		return "", kubeconfig.ErrNotKubernetes
	}
	return v.GitVersion, nil
}

// identity returns the UID of the Namespace kube-system, which lives as long as the cluster, or
// an empty string where the credentials may not read it.
func (c *Connection) identity(ctx context.Context) (string, error) {
	body, err := c.get(ctx, "api/v1/namespaces/kube-system")
	var status *kubeconfig.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusForbidden || status.Code == http.StatusNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var ns struct{ Metadata struct{ UID string } } // The rest of the object is not decoded.
	if err := json.Unmarshal(body, &ns); err != nil || !isShort(ns.Metadata.UID) || !c.hasNoSecret(ns.Metadata.UID) {
		return "", kubeconfig.ErrNotKubernetes
	}
	return ns.Metadata.UID, nil
}

// hasNoSecret reports whether a text from a remote contains no part of a credential.
func (c *Connection) hasNoSecret(text string) bool { return c.redact(text) == text }

// maxShort is longer than any version or UID that an API server has.
const maxShort = 128

// isShort reports whether a version or a UID from a remote is not empty, is short, and consists of visible ASCII
// characters. Longer texts would be cut, so that different texts look the same, and control characters could change
// the terminal of an operator.
func isShort(text string) bool {
	hidden := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	return text != "" && len(text) <= maxShort && !strings.ContainsFunc(text, hidden)
}
