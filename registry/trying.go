// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		a.post(func(m *machine) { m.applyTrial(fact, time.Now()) })
		return
	}
	l := a.newLink(transport)
	l.credential.Store(&act.credential)
	probe := a.applied.Probe
	l.settings.Store(&probe)
	if l.rank = startqueue.RankKnown; a.machine.trial.attempts > 0 {
		l.rank = startqueue.RankFailed
	}
	ctx, cancel := context.WithCancel(a.registry.root)
	a.cancelTrial = cancel
	questions := a.questions
	a.work.Go(func() {
		defer cancel()
		fact := l.try(ctx, questions)
		transport.Close()
		if ctx.Err() == nil {
			a.post(func(m *machine) { a.takeTrial(m, fact) })
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
func (a *actor) takeTrial(m *machine, f trialFact) {
	f.isHub = f.id != "" && a.registry.isHub(f.id) && !a.applied.AllowHub
	m.applyTrial(f, time.Now())
	if !f.ok || !m.trial.accepted {
		a.log.V(1).Info("The new credential is not in use", "reason", m.trial.why.Reason, "error", m.trial.why.Message)
	}
}

// try asks the remote once who it is, and which permissions the credential has.
func (l *link) try(ctx context.Context, q *questions) trialFact {
	release, err := l.contacts.Acquire(ctx, l.rank)
	if err != nil {
		return trialFact{}
	}
	defer release()
	began := time.Now()
	fact, err := l.probe(ctx, probeFact{})
	l.count(fact, time.Since(began))
	if err == nil && fact.id == "" {
		if err = l.authenticated(ctx); err != nil {
			fact.ok, fact.refused, fact.failed = false, kubeconfig.IsRefusal(err), facetOf(err)
		}
	}
	tried := trialFact{probeFact: fact}
	if err != nil || q == nil || len(q.rules) == 0 {
		return tried
	}
	if lacking, err := l.reviewer().rights(ctx, q); err == nil {
		tried.of, tried.lacking = q, lacking
	}
	return tried
}

// anonymous is whom an API server takes for a client that shows no credential.
const anonymous = "system:anonymous"

// authenticated returns an error where the API server takes the credential for that of nobody, as it does with a
// certificate of an authority that it does not name: TLS does not send such a certificate. Whoever is
// authenticated may ask who they are. API servers before 1.28 do not answer that, and are not asked otherwise.
func (l *link) authenticated(ctx context.Context) error {
	review := &authenticationv1.SelfSubjectReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
	}
	err := l.post(ctx, "apis/authentication.k8s.io/v1/selfsubjectreviews", review)
	var status *kubeconfig.StatusError
	switch {
	case errors.As(err, &status) && status.Code == http.StatusNotFound:
		return nil
	case errors.As(err, &status) && status.Code == http.StatusForbidden, err == nil && review.Status.UserInfo.Username == anonymous:
		return &kubeconfig.StatusError{Code: http.StatusUnauthorized}
	}
	return err
}

func facetOf(err error) state.Condition {
	reason, message := kubeconfig.Classify(err)
	return state.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}
