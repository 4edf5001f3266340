// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/clusterfx/clusterfx/registry/rbac"
)

// Lacks asks the API server which permissions the client does not have, with a request for each.
func (c *Cluster) Lacks(ctx context.Context, rights []rbac.Right) ([]rbac.Right, error) {
	var missing []rbac.Right
	seen := map[rbac.Right]bool{}
	for _, right := range rights {
		if seen[right] {
			continue
		}
		seen[right] = true
		review := &authorizationv1.SelfSubjectAccessReview{Spec: right.Review()}
		if err := c.Create(ctx, review); err != nil {
			return nil, c.Explain(fmt.Errorf("ask whether you may %s: %w", right, err))
		}
		if !review.Status.Allowed {
			missing = append(missing, right)
		}
	}
	return missing, nil
}

// Require returns an error that names every permission that the client does not have.
func (c *Cluster) Require(ctx context.Context, rights []rbac.Right) error {
	missing, err := c.Lacks(ctx, rights)
	if err != nil || len(missing) == 0 {
		return err
	}
	return fmt.Errorf("in %s you lack these permissions: %s; ask an administrator for them, or use another account", c.What, Names(missing))
}

// Names lists permissions in one line.
func Names(rights []rbac.Right) string {
	names := make([]string, 0, len(rights))
	for _, r := range rights {
		names = append(names, r.String())
	}
	return strings.Join(names, ", ")
}
