// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/modules"
)

// asHub is the variable that makes the test binary the stock hub, whose commands tests run as a user does.
const asHub = "CLUSTERFX_TEST_AS_HUB"

func TestMain(m *testing.M) {
	if os.Getenv(asHub) != "" {
		os.Exit(app.Main(modules.All()...)) //nolint:forbidigo // This process is a hub and no test.
	}
	ctrl.SetLogger(logr.Discard())
	os.Exit(fleettest.Main(m))
}

// patience is the time that a test waits for a condition that takes a second or two.
const patience = 2 * time.Minute

func eventually(t *testing.T, check func() error) {
	t.Helper()
	gomega.NewWithT(t).Eventually(check).WithTimeout(patience).WithPolling(50 * time.Millisecond).Should(gomega.Succeed())
}

func clientFor(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), hubv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// installed returns a client for a cluster in which the hub's manifests are applied.
func installed(t *testing.T) (client.Client, *rest.Config) {
	t.Helper()
	config := fleettest.Cluster(t, "hub").Config()
	c := clientFor(t, config)
	if err := install.Apply(t.Context(), c, objects(t, install.Options{}), install.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	return c, config
}
