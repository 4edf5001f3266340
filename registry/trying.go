// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// namedCredential is a credential with what its author calls it.
type namedCredential struct {
	kubeconfig.Credential
	name string
}

// keepCredentials forgets the credentials that no line has, and that are not wanted.
func (a *actor) keepCredentials() {
	m := &a.machine
	wanted := map[string]namedCredential{
		*a.credential(): {a.applied.Credential, a.applied.CredentialName},
	}
	for _, one := range []string{m.line.credential, m.line.good, m.spare.credential, m.spare.good} {
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
	a.registry.secrets.Set(string(a.name), all...)
}

// try tries a credential on a connection of its own, and posts the outcome.
func (a *actor) try(act action) {
	a.endTrial()
	fact := trialFact{probeFact: probeFact{endpoint: act.endpoint, credential: act.credential}}
	connection := kubeconfig.Connection{Endpoint: a.applied.Endpoint, Credential: a.credentials[act.credential].Credential}
	transport, err := kubeconfig.NewTransport(connection, a.registry.policy)
	if err != nil {
		fact.refused, fact.failed = true, facetOf(err)
		a.post(fact)
		return
	}
	rank := startqueue.RankKnown
	if a.machine.trial.attempts > 0 {
		rank = startqueue.RankFailed
	}
	ctx, cancel := context.WithCancel(a.registry.root)
	a.cancelTrial = cancel
	questions := a.questions
	l := probe.New(ctx, a.registry.linkOptions(), a.linkTarget(transport, act.credential, rank))
	a.work.Go(func() {
		defer cancel()
		tried := l.Try(questions)
		transport.Close()
		if ctx.Err() == nil {
			a.do(func() { a.takeTrial(trialFact{factOf(tried.Outcome), tried.Questions, tried.Missing}) })
		}
	})
}

func (a *actor) endTrial() {
	if a.cancelTrial != nil {
		a.cancelTrial()
		a.cancelTrial = nil
	}
}

// takeTrial takes note of a trial. The id of the remote is not claimed before the credential is in use.
func (a *actor) takeTrial(f trialFact) {
	f.isHub = f.id != "" && a.registry.isHub(f.id) && !a.applied.AllowHub
	a.learn(f)
	if t := &a.machine.trial; !f.ok || !t.accepted {
		a.log.V(1).Info("The new credential is not in use", "reason", t.why.Reason, "error", t.why.Message)
	}
}

func facetOf(err error) state.Condition {
	reason, message := kubeconfig.Classify(err)
	return state.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// factOf returns what the machine has to know of a probe. Who holds the id is not known yet.
func factOf(p probe.Outcome) probeFact {
	f := probeFact{
		endpoint: p.Endpoint, credential: p.Credential, ok: p.OK, refused: p.Refused, fatal: p.Reason == state.ReasonUnauthorized,
		id: p.ID, version: p.Version,
	}
	if !p.OK {
		f.failed = state.Condition{Status: metav1.ConditionFalse, Reason: p.Reason, Message: p.Message}
	}
	return f
}
