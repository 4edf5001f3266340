// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"context"
	"maps"
	"slices"

	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// namedCredential has the name that its author gave it.
type namedCredential struct {
	kubeconfig.Credential
	name string
}

type inUse struct{ wanted, wantedName, connection, good, spare, spareGood string }

func (a *Actor) keepCredentials() {
	m := &a.machine
	used := inUse{
		a.wants.Credential, a.applied.CredentialName,
		m.Connection.Credential, m.Connection.Good, m.Spare.Credential, m.Spare.Good,
	}
	if a.credentials != nil && used == a.kept {
		return
	}
	a.kept = used
	wanted := map[string]namedCredential{
		a.wants.Credential: {a.applied.Credential, a.applied.CredentialName},
	}
	for _, one := range []string{m.Connection.Credential, m.Connection.Good, m.Spare.Credential, m.Spare.Good} {
		if known, ok := a.credentials[one]; ok && wanted[one].Type() == "" {
			wanted[one] = known
		}
	}
	named := slices.Sorted(maps.Keys(wanted))
	same := slices.Equal(named, slices.Sorted(maps.Keys(a.credentials)))
	if a.credentials = wanted; same {
		return
	}
	var all []kubeconfig.Credential
	for _, one := range named {
		all = append(all, wanted[one].Credential)
	}
	a.host.Secrets.Set(string(a.name), all...)
}

func (a *Actor) try(act machine.Action) {
	a.endTrial()
	fact := machine.Tried{Probed: machine.Probed{Endpoint: act.Endpoint, Credential: act.Credential}}
	connection := kubeconfig.Connection{Endpoint: a.applied.Endpoint, Credential: a.credentials[act.Credential].Credential}
	transport, err := kubeconfig.NewTransport(connection, a.host.Policy)
	if err != nil {
		fact.Refused, fact.Failed = true, probe.ConditionOf(err)
		a.post(fact)
		return
	}
	rank := startqueue.RankKnown
	if a.machine.Trial.Attempts > 0 {
		rank = startqueue.RankFailed
	}
	ctx, cancel := context.WithCancel(a.host.Apps.Root)
	a.cancelTrial = cancel
	questions := a.questions
	l := probe.New(ctx, a.host.Connections, a.linkTarget(transport, act.Credential, rank))
	a.work.Go(func() {
		defer cancel()
		tried := l.Try(questions)
		transport.Close()
		if ctx.Err() == nil {
			a.do(func() {
				a.takeTrial(tried)
			})
		}
	})
}

func (a *Actor) endTrial() {
	if a.cancelTrial != nil {
		a.cancelTrial()
		a.cancelTrial = nil
	}
}

// takeTrial does not claim the id before the credential is in use.
func (a *Actor) takeTrial(f machine.Tried) {
	f.IsHub = f.ID != "" && a.host.IsHub(f.ID) && !a.applied.AllowHub
	a.learn(f)
	if t := &a.machine.Trial; !f.OK || !t.Accepted {
		a.log.V(1).Info("The new credential is not in use", "reason", t.Why.Reason, "error", t.Why.Message)
	}
}
