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

// Connection is the connection to one endpoint: the transport, and the probe that says whether the
// remote can be used. It outlives the epochs that use it, because an unreachable remote has no
// app but is probed on.
type Connection struct {
	shared Options
	target Target
	redact func(string) string

	hurry      atomic.Bool // probe every second: the remote is not known to be well
	pace       atomic.Pointer[Pace]
	credential atomic.Pointer[string] // fingerprint

	heard  atomic.Int64    // when a list last brought an app something, in nanoseconds
	asked  time.Time       // when the remote was last asked who it is; the probe's own
	met    net.Conn        // the connection that said so; the probe's own
	used   net.Conn        // the connection of the probe's last request
	kick   chan struct{}   // asks for a probe now
	ctx    context.Context //nolint:containedctx // A link is a lifetime.
	cancel context.CancelFunc
	done   chan struct{}

	surveyor *surveyor      // nil until there was something to ask; the actor's own
	asking   sync.WaitGroup // the surveyor
}

// retryProbeEvery is the time between probes after a failed one.
const retryProbeEvery = time.Second

// Options are what all links of a registry share.
type Options struct {
	// Contacts is the queue of first contacts.
	Contacts *startqueue.Queue
	Tracer   *telemetry.Tracer
	Metrics  *telemetry.Metrics
	// Beat makes sure that the pulse of the hub beats.
	Beat func()
	// Starved reports whether the hub was short of time at any moment since then.
	Starved func(since time.Time) bool
	// Redact returns a function that replaces the credentials of the hub and of a connection in a text.
	Redact func(*kubeconfig.Transport) func(string) string
}

// Target describes the API server that a Connection leads to.
type Target struct {
	// Cluster is the name of the remote.
	Cluster   string
	Transport *kubeconfig.Transport
	// Endpoint and Credential are fingerprints.
	Endpoint, Credential string
	Server               string
	// Rank is the rank of the first contact in the queue.
	Rank startqueue.Rank
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

// New returns a Connection that sends no request yet. The Connection ends with ctx, or when it is closed.
func New(ctx context.Context, o Options, t Target) *Connection {
	l := &Connection{shared: o, target: t, redact: o.Redact(t.Transport), kick: make(chan struct{}, 1), done: make(chan struct{})}
	l.pace.Store(&t.Pace)
	l.credential.Store(&t.Credential)
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// Start starts the probe. report is called with each outcome, from the goroutine of the probe.
func (l *Connection) Start(report func(Outcome)) {
	l.shared.Beat()
	go l.run(l.ctx, report)
}

// Endpoint returns the fingerprint of the endpoint.
func (l *Connection) Endpoint() string { return l.target.Endpoint }

// Credential returns the fingerprint of the credential.
func (l *Connection) Credential() string { return *l.credential.Load() }

// Server returns the URL of the API server.
func (l *Connection) Server() string { return l.target.Server }

// Transport returns the transport.
func (l *Connection) Transport() *kubeconfig.Transport { return l.target.Transport }

// Heard is the time, in nanoseconds, at which an app last received a part of a list over this Connection. The app stores it.
func (l *Connection) Heard() *atomic.Int64 { return &l.heard }

// Swap replaces the credential, and probes and preflights with the new credential.
func (l *Connection) Swap(c kubeconfig.Credential, fingerprint string) error {
	if err := l.target.Transport.Swap(c); err != nil {
		return err
	}
	l.credential.Store(&fingerprint)
	l.ProbeNow()
	l.PreflightNow()
	return nil
}

// SetPace changes the pace of the probe. With hurry, the probe runs every second.
func (l *Connection) SetPace(p Pace, hurry bool) {
	l.pace.Store(&p)
	l.hurry.Store(hurry)
}

// Cancel cancels the probe and the preflight and does not wait for them.
func (l *Connection) Cancel() { l.cancel() }

// Close ends the probe, the surveys and every connection. It waits for the probe to return, which it does as
// soon as its request has been cancelled.
func (l *Connection) Close() {
	l.cancel()
	<-l.done
	l.asking.Wait()
	l.target.Transport.Close()
}

// ProbeNow triggers a probe.
func (l *Connection) ProbeNow() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

func (l *Connection) run(ctx context.Context, report func(Outcome)) {
	defer close(l.done)
	last, excused := Outcome{}, 0
	release, err := l.shared.Contacts.Acquire(ctx, min(l.target.Rank, startqueue.RankFailed))
	if err != nil {
		return
	}
	for {
		began := time.Now()
		fact, err := l.probe(ctx, last)
		release()
		if ctx.Err() != nil {
			return
		}
		l.count(fact, time.Since(began))
		pause := l.pause(err == nil)
		switch {
		case l.isBehind(err, began):
		case l.isOurFault(err, began) && excused < maxExcused:
			excused++
			pause = 0
		default:
			report(fact)
			last = fact
		}
		if err == nil {
			excused = 0
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-l.kick:
			last = Outcome{}
		case <-ctx.Done():
		}
		wait.Stop()
	}
}

// count counts a probe, whosever fault it was.
func (l *Connection) count(fact Outcome, took time.Duration) {
	l.shared.Metrics.ObserveProbe(l.target.Cluster, fact.Reason, took)
}

// maxExcused is how many failures in a row the hub takes upon itself. A hub that is always short of time
// must still find out in time that a remote is gone.
const maxExcused = 1

// isOurFault reports whether the failure of a probe says nothing of the remote: no answer came while the
// hub was starved, or it had no means to send the probe.
func (l *Connection) isOurFault(err error, began time.Time) bool {
	return err != nil && (isOurs(err) || errors.Is(err, context.DeadlineExceeded) && l.shared.Starved(began))
}

// isBehind reports whether an answer did not come in time because it waits, on the same connection, behind
// what the remote is sending to an app. Over a slow line a list may take minutes.
func (l *Connection) isBehind(err error, began time.Time) bool {
	return errors.Is(err, context.DeadlineExceeded) && l.heard.Load() > began.UnixNano()
}

func (l *Connection) pause(ok bool) time.Duration {
	if !ok || l.hurry.Load() {
		return retryProbeEvery
	}
	period := l.pace.Load().Period
	return time.Duration(float64(period) * (0.9 + 0.2*rand.Float64()))
}

// askAgainAfter is how often a healthy remote is asked who it is and which version it runs, beside
// the times when another cluster may sit behind the address: at first contact, when the remote comes
// back, with another credential, and when the connection is another one.
const askAgainAfter = time.Minute

// isFresh reports whether what the last probe learnt about the remote need not be asked again.
func (l *Connection) isFresh(last Outcome) bool {
	return last.OK && last.ID != "" && time.Since(l.asked) < askAgainAfter
}

// probe asks the remote how it is and, unless the last answer is fresh, who it is. The error is the
// one that the fact describes.
func (l *Connection) probe(ctx context.Context, last Outcome) (Outcome, error) {
	ctx, span := l.shared.Tracer.Start(ctx, "probe", l.target.Cluster)
	defer span.End()
	fact := Outcome{Endpoint: l.target.Endpoint, Credential: *l.credential.Load(), ID: last.ID, Version: last.Version}
	err := l.question(ctx, &fact, last)
	if err != nil {
		fact.fail(err)
		l.shared.Tracer.FailRequest(span, err)
		return fact, err
	}
	fact.OK = true
	return fact, nil
}

func (p *Outcome) fail(err error) {
	p.OK, p.Refused = false, kubeconfig.IsRefusal(err)
	p.Reason, p.Message = kubeconfig.Classify(err)
}

// question fills in what the remote says. A remote that tells who it is has looked that up in its storage
// and is well enough for a first contact; later it is asked how it is besides.
func (l *Connection) question(ctx context.Context, fact *Outcome, last Outcome) error {
	if l.isFresh(last) {
		if err := l.healthy(ctx); err != nil || l.used == l.met {
			return err
		}
	}
	l.asked = time.Now()
	var err error
	if fact.ID, err = l.identity(ctx); err != nil {
		return err
	}
	l.met = l.used
	if first := last.Endpoint == ""; fact.ID == "" || !first {
		if err := l.healthy(ctx); err != nil {
			return err
		}
	}
	fact.Version, err = l.version(ctx)
	return err
}

// healthy returns nil if the API server says that it is ready; where the credentials may not ask
// that, if it answers at all.
func (l *Connection) healthy(ctx context.Context) error {
	_, err := l.get(ctx, "readyz")
	var status *kubeconfig.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusForbidden || status.Code == http.StatusNotFound) {
		_, err = l.get(ctx, "version")
	}
	return err
}

func (l *Connection) version(ctx context.Context) (string, error) {
	body, err := l.get(ctx, "version")
	if err != nil {
		return "", err
	}
	var v struct{ GitVersion string }
	if err := json.Unmarshal(body, &v); err != nil || !isShort(v.GitVersion) || !l.isOwnWord(v.GitVersion) {
		return "", kubeconfig.ErrNotKubernetes
	}
	return v.GitVersion, nil
}

// identity returns the UID of the Namespace kube-system, which lives as long as the cluster, or
// an empty string where the credentials may not read it.
func (l *Connection) identity(ctx context.Context) (string, error) {
	body, err := l.get(ctx, "api/v1/namespaces/kube-system")
	var status *kubeconfig.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusForbidden || status.Code == http.StatusNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var ns struct{ Metadata struct{ UID string } } // and nothing else that may be in it
	if err := json.Unmarshal(body, &ns); err != nil || !isShort(ns.Metadata.UID) || !l.isOwnWord(ns.Metadata.UID) {
		return "", kubeconfig.ErrNotKubernetes
	}
	return ns.Metadata.UID, nil
}

// isOwnWord reports whether a text of a remote has nothing of a credential.
func (l *Connection) isOwnWord(text string) bool { return l.redact(text) == text }

// maxShort is longer than any version or UID that an API server has.
const maxShort = 128

// isShort reports whether a text that a remote says of itself is there, short, and made of visible
// ASCII characters, as versions and UIDs are. Others would be cut, and look the same then though they
// are not, or do something to the terminal of whoever looks at them.
func isShort(text string) bool {
	hidden := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	return text != "" && len(text) <= maxShort && !strings.ContainsFunc(text, hidden)
}
