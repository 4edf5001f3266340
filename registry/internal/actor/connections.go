// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// The actions of an actor on its connections. Code that changes the actor runs in its goroutine.

// connect posts the reason and returns nil if it fails.
func (a *Actor) connect() *probe.Connection {
	connection := kubeconfig.Connection{Endpoint: a.applied.Endpoint, Credential: a.applied.Credential}
	transport, err := kubeconfig.NewTransport(connection, a.host.Policy)
	if err != nil {
		a.reject(err)
		return nil
	}
	target := a.linkTarget(transport, a.wants.Credential, a.rank())
	requests := a.newEarly(transport)
	target.Beside = probe.Beside{Questions: a.questions, Ask: requests.send}
	l := probe.New(a.host.Apps.Root, a.host.Connections, target)
	a.early[l], requests.current = requests, l.Credential
	l.Start(func(p probe.Outcome) { a.do(func() { a.takeProbe(l, factOf(p)) }) })
	return l
}

func (a *Actor) linkTarget(transport *kubeconfig.Transport, credential string, rank startqueue.Rank) probe.Target {
	return probe.Target{
		Cluster:    string(a.name),
		Transport:  transport,
		Endpoint:   a.applied.Endpoint,
		Credential: credential,
		Rank:       rank,
		Pace:       probe.Pace{Period: a.applied.Probe.Period, Timeout: a.applied.Probe.Timeout},
	}
}

// disconnect ends the probe at once, and the connection when no open lease may use it.
func (a *Actor) disconnect(gone *probe.Connection) {
	if gone == nil {
		return
	}
	a.early[gone].take("")
	delete(a.early, gone)
	gone.Cancel()
	owners := slices.Clone(a.retired)
	a.work.Go(func() {
		for _, e := range owners {
			if e.Remote.Base == gone.Transport() {
				<-e.Context().Done()
			}
		}
		gone.Close()
	})
}

// earlyRequests ask for discovery documents when a connection meets its remote, for the next app.
type earlyRequests struct {
	prepare func() *app.Early // returns nil if nothing may be requested early
	current func() string     // returns the credential in use

	first  atomic.Pointer[earlyDocuments] // until they are requested
	latest atomic.Pointer[earlyDocuments] // until they are taken
}

// earlyDocuments have the credential with which they were requested.
type earlyDocuments struct {
	*app.Early
	credential string
}

// newEarly sends none while a middleware is selected: it would change them, and may not see an unknown remote.
func (a *Actor) newEarly(transport *kubeconfig.Transport) *earlyRequests {
	known := app.EarlyRemote{
		Name: a.name, Endpoint: a.applied.Endpoint, Timeout: a.applied.WithDefaults().Client.Timeout, Base: transport,
	}
	e := &earlyRequests{prepare: func() *app.Early {
		if a.host.Middleware.Wraps(a.name, a.latest.Load()) {
			return nil
		}
		return a.host.Apps.NewEarly(known)
	}}
	if first := e.prepare(); first != nil {
		documents := &earlyDocuments{first, a.wants.Credential}
		e.first.Store(documents)
		e.latest.Store(documents)
	}
	return e
}

// send completes, in its first call, the documents that the first app waits for. Calls may overlap.
func (e *earlyRequests) send(ctx context.Context) {
	next := e.first.Swap(nil)
	if next == nil {
		documents := e.prepare()
		if documents == nil {
			return
		}
		next = &earlyDocuments{documents, e.current()}
		e.latest.Store(next)
	}
	next.Request(ctx)
}

// take returns the latest documents, once, or nil if there are none for a credential.
func (e *earlyRequests) take(credential string) *app.Early {
	if e == nil {
		return nil
	}
	found := e.latest.Swap(nil)
	if found == nil || found.credential != credential {
		return nil
	}
	return found.Early
}

func (a *Actor) takeEarly(l *probe.Connection) *app.Early {
	found := a.early[l].take(l.Credential())
	if found != nil && a.host.Middleware.Wraps(a.name, &a.applied) { // It did not when the documents were requested.
		return nil
	}
	return found
}

func (a *Actor) dropEarly(l *probe.Connection) {
	c := a.machine.ConnectionTo(l.Endpoint())
	if c == nil || !a.machine.Usable(c) || l == a.link && a.machine.Latest().Runs() {
		a.early[l].take("")
	}
}

// swap replaces the credential of the running app. It opens a connection that could not be opened before.
func (a *Actor) swap(l *probe.Connection, act machine.Action) *probe.Connection {
	if l == nil {
		return a.connect()
	}
	if err := l.Swap(a.credentials[act.Credential].Credential, act.Credential); err != nil {
		a.log.Error(err, "Failed to use the new credential; the previous credential stays in use")
		before, why := l.Credential(), conditionOf(err)
		a.post(machine.SwapFailed{Endpoint: act.Endpoint, Before: before, Why: why})
		return l
	}
	a.log.Info("The credential was replaced")
	return l
}

// reject treats credentials without a possible connection like a refused probe.
func (a *Actor) reject(err error) {
	a.post(machine.Probed{
		Endpoint: a.applied.Endpoint.Fingerprint(), Credential: a.wants.Credential,
		Failed: conditionOf(err), Fatal: true, Refused: true,
	})
}
