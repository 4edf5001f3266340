// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"context"
	"slices"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// This file has the actions of an actor on its connections. Code that changes the actor runs in the actor's goroutine.

// connect opens a connection to the desired endpoint. If that fails it posts the reason and returns nil.
func (a *Actor) connect() *probe.Connection {
	connection := kubeconfig.Connection{Endpoint: a.applied.Endpoint, Credential: a.applied.Credential}
	transport, err := kubeconfig.NewTransport(connection, a.host.Policy)
	if err != nil {
		a.reject(err)
		return nil
	}
	target := a.linkTarget(transport, *a.credential(), a.rank())
	early := a.newEarly(transport)
	target.Beside = probe.Beside{Questions: a.questions, Ask: early.ask()}
	l := probe.New(a.host.Apps.Root, a.host.Connections, target)
	if early.documents != nil {
		a.early[l] = early
	}
	l.Start(func(p probe.Outcome) { a.do(func() { a.takeProbe(l, factOf(p)) }) })
	return l
}

// linkTarget describes a connection to the desired endpoint, with a credential.
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

// disconnect ends the probe of a connection at once, and the connection as soon as no open lease may use it.
func (a *Actor) disconnect(gone *probe.Connection) {
	if gone == nil {
		return
	}
	delete(a.early, gone)
	gone.Cancel()
	owners := slices.Clone(a.retired)
	a.work.Go(func() {
		for _, e := range owners {
			if e.Base() == gone.Transport() {
				<-e.Context().Done()
			}
		}
		gone.Close()
	})
}

// earlyRequests are what a connection requests beside its first contact for the app that will use the connection.
type earlyRequests struct {
	documents  *app.Early // nil for none
	credential string     // with which they are requested
}

// newEarly returns the early requests of a connection. A middleware would change the requests, and may not see a remote whose
// identity is not known.
func (a *Actor) newEarly(transport *kubeconfig.Transport) earlyRequests {
	if a.hasMiddleware() {
		return earlyRequests{}
	}
	return earlyRequests{credential: *a.credential(), documents: a.host.Apps.NewEarly(app.EarlyRemote{
		Name: a.name, Desired: a.applied.WithDefaults(), Base: transport,
	})}
}

// ask returns the function that sends the requests, or nil.
func (e earlyRequests) ask() func(context.Context) {
	if e.documents == nil {
		return nil
	}
	return e.documents.Request
}

// hasMiddleware reports whether a middleware wraps the requests of apps.
func (a *Actor) hasMiddleware() bool {
	return a.host.Middleware.Wrap(a.name, a.latest.Load, nil) != nil
}

// takeEarly returns the documents that were requested early on a connection, once, for an app on the connection.
func (a *Actor) takeEarly(l *probe.Connection) *app.Early {
	early := a.early[l]
	delete(a.early, l)
	if early.credential != l.Credential() || a.hasMiddleware() {
		return nil
	}
	return early.documents
}

// swap replaces the credential of the running app. A connection that could not be opened before is opened now.
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

// reject treats credentials with which no connection can be made like a probe that the remote refused.
func (a *Actor) reject(err error) {
	a.post(machine.Probed{
		Endpoint: a.applied.Endpoint.Fingerprint(), Credential: *a.credential(),
		Failed: conditionOf(err), Fatal: true, Refused: true,
	})
}
