// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/config"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
)

// InstallCRDs creates or updates clusterfx's CRDs, and returns when they are served. Tests may call it at once.
func InstallCRDs(tb testing.TB, hub *rest.Config) {
	tb.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		tb.Fatalf("build a scheme: %v", err)
	}
	crds, err := pool.ReadCRDs(config.CRDs)
	if err != nil {
		tb.Fatalf("read the CRDs of clusterfx: %v", err)
	}
	http, err := rest.HTTPClientFor(hub)
	if err != nil {
		tb.Fatalf("build a client: %v", err)
	}
	defer http.CloseIdleConnections()
	c, err := client.New(hub, client.Options{Scheme: scheme, HTTPClient: http})
	if err != nil {
		tb.Fatalf("build a client: %v", err)
	}
	if err := pool.InstallCRDs(tb.Context(), c, crds); err != nil {
		tb.Fatalf("install the CRDs of clusterfx: %v", err)
	}
}
