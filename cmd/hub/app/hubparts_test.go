// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/modules"
	"github.com/clusterfx/clusterfx/registry"
)

// command runs a command of the stock hub against the hub's cluster. It returns an error if a text is not in the output.
func (h *hub) command(args []string, wanted ...string) error {
	h.t.Helper()
	_, out, problems := h.execute(modules.All(), args...) // The exit status says that a hub part does not run.
	for _, text := range wanted {
		if !strings.Contains(out+problems, text) {
			return fmt.Errorf("the output of %s has no %q: %s", args, text, out+problems)
		}
	}
	return nil
}

// A hub part that lacks a permission is reported by /readyz?verbose, check and get modules, with its name and the permission; the hub
// is ready, and the other hub parts run. A hub part that fails before it adds its health check adds the check when it is restarted.
func TestRun_HubPartsAreShown(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	user, err := h.cluster.MintCertificate(t.Context(), fleet.User{Name: "shown"})
	h.must(err)
	grant(t, h.Client, "shown", h.roles("--in=hub"))
	lacks := registry.NewModule("lacks", registry.ModuleOptions{
		HubRuns:  registry.WithRemotes,
		Hub:      fx.Invoke(func(ctrl.Manager) {}),
		HubRules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}},
	})
	var lives atomic.Int64
	late := registry.NewModule("late", registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: fx.Invoke(func(m ctrl.Manager) error {
		if lives.Add(1) == 1 {
			return errors.New("no database")
		}
		nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		return errors.Join(m.AddReadyzCheck("late", func(*http.Request) error { return nil }),
			m.AddHealthzCheck("late", func(*http.Request) error { return nil }), m.AddMetricsServerExtraHandler("/late", nothing))
	})})
	o := h.options(lacks, late)
	o.Config, o.HealthAddress, o.MetricsAddress = user.Config(), fleettest.FreeAddress(t), fleettest.FreeAddress(t)
	o = withReplicas(o, "one")
	h.run(o)
	for address, path := range map[string]string{o.HealthAddress: "readyz/late", o.MetricsAddress: "late"} {
		eventually(t, func() error { return get(t, address, path, http.StatusOK) })
	}
	eventually(t, func() error {
		return shows(t, "http://"+o.HealthAddress+"/readyz?verbose", "[!]the hub part of module lacks is Waiting (RightsMissing)\n")
	})
	eventually(t, func() error {
		return h.command([]string{"check"}, "the hub part of module lacks is Waiting (RightsMissing) in one since 2",
			"list pods", "grant the permissions that hub rbac --in hub prints")
	})
	eventually(t, func() error {
		return h.command([]string{"get", "modules", "-o", "wide"}, "HUB PART", "Waiting (RightsMissing)", "list pods", "SINCE", "Running")
	})
	h.must(h.command([]string{"get", "modules", "lacks", "-o", "json"}, `"reason": "RightsMissing"`, `"replica": "one"`, `"since": "2`))
}

// shows returns an error unless a page has the status 200 and the text.
func shows(t *testing.T, url, text string) error {
	t.Helper()
	status, body, err := fetch(t, url)
	if err != nil || status != http.StatusOK || !strings.Contains(body, text) {
		return fmt.Errorf("%s: %d: %s: %w", url, status, body, err)
	}
	return nil
}
