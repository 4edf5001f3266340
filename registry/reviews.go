// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// Reviews asks an API server which permissions a client has, for a module whose permissions follow from what users write, and so
// cannot be declared. It is safe for many goroutines.
type Reviews struct {
	client client.Client
	known  *cache.LRUExpireCache // the rules by namespace
}

// reviewFor is how long the rules of a namespace are remembered, and maxReviews of how many: many ask for them at once.
const reviewFor, maxReviews = 5 * time.Second, 1000

// NewReviews returns Reviews that ask with a client.
func NewReviews(c client.Client) *Reviews {
	return &Reviews{client: c, known: cache.NewLRUExpireCache(maxReviews)}
}

// Lacking returns the permissions of these that the client does not have, as an operator would ask for them.
func (r *Reviews) Lacking(ctx context.Context, of []rbac.NamespacedRules) ([]string, error) {
	lacking, err := probe.Reviewer{Post: r.post}.Lacking(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("ask for the permissions of the hub: %w", err)
	}
	return lacking, nil
}

var errNoReview = errors.New("the reviewer asks for something else than rules and access")

func (r *Reviews) post(ctx context.Context, about client.Object) error {
	switch one := about.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		return r.client.Create(ctx, one)
	case *authorizationv1.SelfSubjectRulesReview:
		known, _ := r.known.Get(one.Spec.Namespace)
		if status, ok := known.(*authorizationv1.SubjectRulesReviewStatus); ok {
			status.DeepCopyInto(&one.Status)
			return nil
		}
		err := r.client.Create(ctx, one)
		if err == nil {
			r.known.Add(one.Spec.Namespace, one.Status.DeepCopy(), reviewFor)
		}
		return err
	}
	return errNoReview
}
