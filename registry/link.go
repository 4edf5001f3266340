// SPDX-License-Identifier: Apache-2.0

package registry

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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// link is the connection to one endpoint: the transport, and the probe that says whether the
// remote can be used. It outlives the epochs that use it, because an unreachable remote has no
// app but is probed on.
type link struct {
	*environment
	name      ClusterName
	transport *kubeconfig.Transport
	endpoint  string // fingerprint
	server    string
	rank      startqueue.Rank // of the first contact
	report    func(probeFact)

	hurry      atomic.Bool // probe every second: the remote is not known to be well
	settings   atomic.Pointer[state.Probe]
	credential atomic.Pointer[string] // fingerprint; the actor stores it after the swap

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

// open starts the probe of a link of which everything up to report, and credential, is set.
// It ends with ctx, or when the link is closed.
func (l *link) open(ctx context.Context, p state.Probe) {
	ctx, cancel := context.WithCancel(ctx)
	l.settings.Store(&p)
	l.beat()
	l.kick, l.done = make(chan struct{}, 1), make(chan struct{})
	l.ctx, l.cancel = ctx, cancel
	go l.run(ctx)
}

// close ends the probe, the surveys and every connection. It waits for the probe to return, which it does as
// soon as its request has been cancelled.
func (l *link) close() {
	l.cancel()
	<-l.done
	l.asking.Wait()
	l.transport.Close()
}

// probeNow asks for a probe without waiting for its time to come.
func (l *link) probeNow() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

func (l *link) run(ctx context.Context) {
	defer close(l.done)
	last, excused := probeFact{}, 0
	release, err := l.contacts.Acquire(ctx, min(l.rank, startqueue.RankFailed))
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
			l.report(fact)
			last = fact
		}
		if err == nil {
			excused = 0
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-l.kick:
			last = probeFact{}
		case <-ctx.Done():
		}
		wait.Stop()
	}
}

// count counts a probe, whosever fault it was.
func (l *link) count(fact probeFact, took time.Duration) {
	failure := ""
	if !fact.ok {
		failure = fact.failed.Reason
	}
	l.metrics.ObserveProbe(string(l.name), failure, took)
}

// maxExcused is how many failures in a row the hub takes upon itself. A hub that is always short of time
// must still find out in time that a remote is gone.
const maxExcused = 1

// isOurFault reports whether the failure of a probe says nothing of the remote: no answer came while the
// hub was starved, or it had no means to send the probe.
func (l *link) isOurFault(err error, began time.Time) bool {
	return err != nil && (isOurs(err) || errors.Is(err, context.DeadlineExceeded) && l.pulse.StarvedSince(began))
}

// isBehind reports whether an answer did not come in time because it waits, on the same connection, behind
// what the remote is sending to an app. Over a slow line a list may take minutes.
func (l *link) isBehind(err error, began time.Time) bool {
	return errors.Is(err, context.DeadlineExceeded) && l.heard.Load() > began.UnixNano()
}

func (l *link) pause(ok bool) time.Duration {
	if !ok || l.hurry.Load() {
		return retryProbeEvery
	}
	period := l.settings.Load().Period
	return time.Duration(float64(period) * (0.9 + 0.2*rand.Float64()))
}

// askAgainAfter is how often a healthy remote is asked who it is and which version it runs, beside
// the times when another cluster may sit behind the address: at first contact, when the remote comes
// back, with another credential, and when the connection is another one.
const askAgainAfter = time.Minute

// isFresh reports whether what the last probe learnt about the remote need not be asked again.
func (l *link) isFresh(last probeFact) bool {
	return last.ok && last.id != "" && time.Since(l.asked) < askAgainAfter
}

// probe asks the remote how it is and, unless the last answer is fresh, who it is. The error is the
// one that the fact describes.
func (l *link) probe(ctx context.Context, last probeFact) (probeFact, error) {
	ctx, span := l.tracer.Start(ctx, "probe", string(l.name))
	defer span.End()
	fact := probeFact{endpoint: l.endpoint, credential: *l.credential.Load(), id: last.id, version: last.version}
	err := l.question(ctx, &fact, last)
	if err != nil {
		reason, message := kubeconfig.Classify(err)
		fact.failed = state.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
		fact.fatal = reason == state.ReasonUnauthorized
		fact.refused = kubeconfig.IsRefusal(err)
		l.tracer.FailRequest(span, err)
		return fact, err
	}
	fact.ok = true
	return fact, nil
}

// question fills in what the remote says. A remote that tells who it is has looked that up in its storage
// and is well enough for a first contact; later it is asked how it is besides.
func (l *link) question(ctx context.Context, fact *probeFact, last probeFact) error {
	if l.isFresh(last) {
		if err := l.healthy(ctx); err != nil || l.used == l.met {
			return err
		}
	}
	l.asked = time.Now()
	var err error
	if fact.id, err = l.identity(ctx); err != nil {
		return err
	}
	l.met = l.used
	if first := last.endpoint == ""; fact.id == "" || !first {
		if err := l.healthy(ctx); err != nil {
			return err
		}
	}
	fact.version, err = l.version(ctx)
	return err
}

// healthy returns nil if the API server says that it is ready; where the credentials may not ask
// that, if it answers at all.
func (l *link) healthy(ctx context.Context) error {
	_, err := l.get(ctx, "readyz")
	var status *kubeconfig.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusForbidden || status.Code == http.StatusNotFound) {
		_, err = l.get(ctx, "version")
	}
	return err
}

func (l *link) version(ctx context.Context) (string, error) {
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
func (l *link) identity(ctx context.Context) (string, error) {
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
func (l *link) isOwnWord(text string) bool { return l.redactFor(l.transport)(text) == text }

// maxShort is longer than any version or UID that an API server has.
const maxShort = 128

// isShort reports whether a text that a remote says of itself is there, short, and made of visible
// ASCII characters, as versions and UIDs are. Others would be cut, and look the same then though they
// are not, or do something to the terminal of whoever looks at them.
func isShort(text string) bool {
	hidden := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	return text != "" && len(text) <= maxShort && !strings.ContainsFunc(text, hidden)
}
