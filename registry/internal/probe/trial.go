// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/preflight"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// TrialOutcome is the outcome of a probe with another credential.
type TrialOutcome struct {
	Outcome
	Questions *preflight.Questions // that lacking answers; nil if the permissions are not known
	Missing   map[string][]string  // by module
}

// reviewer asks the remote.
func (l *Connection) reviewer() Reviewer {
	return Reviewer{Post: func(ctx context.Context, path string, review client.Object) error { return l.post(ctx, path, review) }}
}

// Try asks the remote once who it is, and which permissions the credential has.
func (l *Connection) Try(q *preflight.Questions) TrialOutcome {
	ctx := l.ctx
	release, err := l.shared.Contacts.Acquire(ctx, l.target.Rank)
	if err != nil {
		return TrialOutcome{}
	}
	defer release()
	began := time.Now()
	fact, err := l.probe(ctx, Outcome{})
	l.count(fact, time.Since(began))
	if err == nil && fact.ID == "" {
		if err = l.authenticated(ctx); err != nil {
			fact.fail(err)
		}
	}
	tried := TrialOutcome{Outcome: fact}
	if err != nil || q == nil || len(q.Rules) == 0 {
		return tried
	}
	if lacking, err := l.reviewer().Missing(ctx, q); err == nil {
		tried.Questions, tried.Missing = q, lacking
	}
	return tried
}

// anonymous is whom an API server takes for a client that shows no credential.
const anonymous = "system:anonymous"

// authenticated returns an error where the API server takes the credential for that of nobody, as it does with a
// certificate of an authority that it does not name: TLS does not send such a certificate. Whoever is
// authenticated may ask who they are. API servers before 1.28 do not answer that, and are not asked otherwise.
func (l *Connection) authenticated(ctx context.Context) error {
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
