// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
)

// A hub is a manager with the options of this package, the registry, and this package. The registry and this package
// get the same policy.
func Example() {
	newManager := func() (ctrl.Manager, error) {
		kubeconfig, err := config.GetConfig()
		if err != nil {
			return nil, err
		}
		return ctrl.NewManager(kubeconfig, cluster.ManagerOptions(hubv1.DefaultNamespace))
	}
	hub := fx.Options(
		fx.NopLogger,
		fx.Provide(newManager, logr.Discard),
		fx.Supply(registry.Options{Replica: "hub-0"}),
		fx.Supply(cluster.Settings{HubID: "the UID of kube-system", RemoveWithin: time.Minute}),
		registry.FX,
		cluster.Module,
	)
	fmt.Println("what is missing:", fx.ValidateApp(hub))
	// Output: what is missing: <nil>
}
