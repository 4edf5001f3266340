// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet"

	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
)

const hubAccount = "hubtest-hub"

func (h *Hub) restrict() {
	h.tb.Helper()
	account, err := h.way.cluster.MintToken(h.tb.Context(), fleet.User{Name: hubAccount})
	if err == nil {
		err = app.GrantHub(h.tb.Context(), h.Client(), h.site.process.options(&run{}), rbacv1.Subject{
			Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: hubAccount,
		})
	}
	h.must(err, "create the account of the hub")
	h.site.process.account = account
}

// WaitHubPart waits for a hub part's state (a constant of package registry such as ModuleRunning) and reason. An
// empty reason matches all.
func (h *Hub) WaitHubPart(module, state, reason string) {
	h.tb.Helper()
	h.wait(fmt.Sprintf("the hub part of %s to be %s %s", module, state, reason), func(context.Context) error {
		running, err := h.site.process.running()
		if err != nil {
			return err
		}
		for _, p := range running.Registry.HubParts() {
			switch {
			case p.Module != module:
			case p.State != state, reason != "" && p.Reason != reason:
				return fmt.Errorf("it is %s, %s: %s", p.State, p.Reason, clusterstatus.WithAdvice(p.Message, p.Problem))
			default:
				return nil
			}
		}
		return fmt.Errorf("the hub has no module %s with a hub part", module)
	})
}
