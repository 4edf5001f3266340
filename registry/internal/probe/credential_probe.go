// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Try probes once, with the identity, and checks the permissions of the credential.
func (c *Connection) Try(q *machine.Questions) machine.Tried {
	ctx := c.ctx
	release, err := c.shared.Contacts.Acquire(ctx, c.rank)
	if err != nil {
		return machine.Tried{}
	}
	defer release()
	began := time.Now()
	outcome, err := c.probe(ctx, machine.Probed{})
	c.count(outcome, time.Since(began))
	if err == nil && outcome.ID == "" {
		if err = c.authenticated(ctx); err != nil {
			fail(&outcome, err)
		}
	}
	tried := machine.Tried{Probed: outcome}
	if err != nil || q == nil || len(q.Rules) == 0 {
		return tried
	}
	if lacking, err := (Reviewer{c.post}).Missing(ctx, q); err == nil {
		tried.Questions, tried.Missing = q, lacking
	}
	return tried
}

// anonymous is the user of a client without a credential.
const anonymous = "system:anonymous"

// authenticated fails if the API server takes the client for anonymous, as with a client certificate of an authority
// that it does not name: TLS does not send that. Every authenticated user may create a SelfSubjectReview. Servers
// before 1.28 lack it; then it returns nil.
func (c *Connection) authenticated(ctx context.Context) error {
	review := &authenticationv1.SelfSubjectReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
	}
	err := c.post(ctx, review)
	var status *kubeconfig.StatusError
	switch {
	case errors.As(err, &status) && status.Code == http.StatusNotFound:
		return nil
	case errors.As(err, &status) && status.Code == http.StatusForbidden, err == nil && review.Status.UserInfo.Username == anonymous:
		return &kubeconfig.StatusError{Code: http.StatusUnauthorized}
	}
	return err
}
