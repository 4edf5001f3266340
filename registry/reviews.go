// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// Reviews asks an API server which permissions a client has, for a module whose permissions follow from what users write, and so
// cannot be declared. It is safe for many goroutines.
type Reviews struct {
	client client.Client

	mu    sync.Mutex // protects the field
	known map[string]review
}

type review struct {
	status authorizationv1.SubjectRulesReviewStatus
	at     time.Time
}

// reviewFor is how long the rules of a namespace are remembered: many ask for them at once.
const reviewFor = 5 * time.Second

// NewReviews returns Reviews that ask with a client.
func NewReviews(c client.Client) *Reviews { return &Reviews{client: c, known: map[string]review{}} }

// Lacking returns the permissions of these that the client does not have, as an operator would ask for them.
func (r *Reviews) Lacking(ctx context.Context, of []rbac.NamespacedRules) ([]string, error) {
	const module = "asks"
	var lacking []string
	for _, part := range of {
		q := &machine.Questions{Rules: []machine.ModuleRules{{Module: module, Rules: part.Rules}}}
		if part.Namespace != "" {
			q.Namespaces = []string{part.Namespace}
		}
		missing, err := probe.Reviewer{Post: r.post}.Missing(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("ask for the permissions of the hub: %w", err)
		}
		lacking = append(lacking, missing[module]...)
	}
	return probe.Abbreviate(lacking), nil
}

var errNoReview = errors.New("the reviewer asks for something else than rules and access")

func (r *Reviews) post(ctx context.Context, _ string, about client.Object) error {
	switch one := about.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		return r.client.Create(ctx, one)
	case *authorizationv1.SelfSubjectRulesReview:
		r.mu.Lock()
		before, ok := r.known[one.Spec.Namespace]
		r.mu.Unlock()
		if ok && time.Since(before.at) < reviewFor {
			before.status.DeepCopyInto(&one.Status)
			return nil
		}
		if err := r.client.Create(ctx, one); err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.known[one.Spec.Namespace] = review{*one.Status.DeepCopy(), time.Now()}
		return nil
	}
	return errNoReview
}
