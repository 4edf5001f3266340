// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/fx"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// ExpectKindsInAnyOrder fails the test unless a module starts with the invoke that adds its kind before and after it.
// It returns the error of a start without the invoke, which must say how to add the kind.
func ExpectKindsInAnyOrder(t *testing.T, config *rest.Config, kinds, module fx.Option) error {
	t.Helper()
	start := func(parts ...fx.Option) error {
		app := fx.New(append(parts, fx.NopLogger, fx.Provide(func() (ctrl.Manager, error) {
			return ctrl.NewManager(config, ctrl.Options{
				Scheme: runtime.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"},
			})
		}))...)
		return errors.Join(app.Err(), app.Start(t.Context()))
	}
	if err := start(kinds, module); err != nil {
		t.Errorf("the kind comes before the module: %v", err)
	}
	if err := start(module, kinds); err != nil {
		t.Errorf("the kind comes after the module: %v", err)
	}
	err := start(module)
	if err == nil || !strings.Contains(err.Error(), "add it to the scheme") {
		t.Errorf("no invoke adds the kind: %v", err)
	}
	return err
}
