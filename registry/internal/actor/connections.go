// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"slices"

	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/internal/restmapper"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// The actions of an actor on its connections. Code that changes the actor runs in its goroutine.

// connect posts the reason and returns nil if it fails.
func (a *Actor) connect() *probe.Connection {
	connection := kubeconfig.Connection{Endpoint: a.applied.Endpoint, Credential: a.applied.Credential}
	base, err := kubeconfig.NewTransport(connection, a.host.Policy)
	if err != nil {
		a.reject(err)
		return nil
	}
	target := a.linkTarget(base, a.wants.Credential, a.rank())
	target.Beside.Questions = a.questions
	early := a.newEarly(base)
	if early != nil {
		target.Beside.Ask = early.Request
	}
	l := probe.New(a.host.Apps.Root, a.host.Connections, target)
	a.early[l] = early
	l.Start(func(p machine.Probed) { a.do(func() { a.takeProbe(l, p) }) })
	return l
}

func (a *Actor) linkTarget(base *kubeconfig.Transport, credential string, rank startqueue.Rank) probe.Target {
	return probe.Target{
		Cluster:    string(a.name),
		Transport:  base,
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
	delete(a.early, gone)
	gone.Cancel()
	owners := slices.Clone(a.retired)
	a.work.Go(func() {
		for _, e := range owners {
			if e.Remote.Base == gone.Transport {
				<-e.Context().Done()
			}
		}
		gone.Close()
	})
}

// newEarly returns nil while a middleware is selected: it would change the requests, and may not see an unknown remote.
func (a *Actor) newEarly(base *kubeconfig.Transport) *restmapper.Early {
	if a.host.Middleware.Wraps(a.name, a.latest.Load()) {
		return nil
	}
	return a.host.Apps.NewEarly(a.name, a.applied.WithDefaults(), base)
}

func (a *Actor) takeEarly(l *probe.Connection) *restmapper.Early {
	found := a.early[l]
	delete(a.early, l)
	if a.host.Middleware.Wraps(a.name, &a.applied) { // It may not have when the documents were requested.
		return nil
	}
	return found
}

// dropEarly frees the memory of documents that no app will use soon.
func (a *Actor) dropEarly(l *probe.Connection) {
	c := a.machine.ConnectionTo(l.Endpoint)
	if c == nil || !a.machine.Usable(c) || l == a.link && a.machine.Latest().Runs() {
		delete(a.early, l)
	}
}

// swap replaces the credential of the running app. It opens a connection that could not be opened before.
func (a *Actor) swap(l *probe.Connection, act machine.Action) *probe.Connection {
	if l == nil {
		return a.connect()
	}
	if err := l.Swap(a.credentials[act.Credential].Credential, act.Credential); err != nil {
		a.log.Error(err, "Failed to use the new credential; the previous credential stays in use")
		before, why := l.Credential(), probe.ConditionOf(err)
		a.post(machine.SwapFailed{Endpoint: act.Endpoint, Before: before, Why: why})
		return l
	}
	delete(a.early, l) // They were requested with another one.
	a.log.Info("The credential was replaced")
	return l
}

// reject treats credentials without a possible connection like a refused probe.
func (a *Actor) reject(err error) {
	a.post(machine.Probed{
		Endpoint: a.applied.Endpoint.Fingerprint(), Credential: a.wants.Credential,
		Failed: probe.ConditionOf(err), Fatal: true, Refused: true,
	})
}
