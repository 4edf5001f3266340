// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/clusterfx/clusterfx/e2e/fleet"
)

func Example() {
	run := func(ctx context.Context) (err error) {
		f, err := fleet.New(ctx, fleet.Options{})
		if err != nil {
			return err
		}
		defer func() { err = f.Close(context.WithoutCancel(ctx)) }()
		remote, err := f.Create(ctx, "remote")
		if err != nil {
			return err
		}
		// A user with permission to read Nodes for ten seconds.
		watcher, err := remote.MintToken(ctx, fleet.User{
			Name:     "watcher",
			Lifetime: 10 * time.Second,
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"},
			}},
		})
		if err != nil {
			return err
		}
		fmt.Println(len(watcher.Kubeconfig()) > 0)
		// Stop the remote without notice, and start it again.
		if err := remote.Kill(); err != nil {
			return err
		}
		return remote.Restart(ctx)
	}
	_ = run // Without an Output comment an example is compiled, not run.
}
