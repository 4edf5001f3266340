// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"io/fs"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/config"
)

// InstallCRDs creates or updates the CRDs of clusterfx in a cluster, and returns when the cluster serves them. Tests that share a
// cluster may call it at the same time.
func InstallCRDs(tb testing.TB, hub *rest.Config) {
	tb.Helper()
	crds, err := readCRDs()
	if err != nil {
		tb.Fatalf("read the CRDs: %v", err)
	}
	another := func(err error) bool { return apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) }
	err = retry.OnError(retry.DefaultBackoff, another, func() error {
		_, err := envtest.InstallCRDs(hub, envtest.CRDInstallOptions{CRDs: crds, MaxTime: time.Minute})
		return err
	})
	if err != nil {
		tb.Fatalf("install the CRDs of clusterfx: %v", err)
	}
}

func readCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := fs.Glob(config.CRDs, "crd/*.yaml")
	if err != nil {
		return nil, err
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		text, err := config.CRDs.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return nil, err
		}
		crds = append(crds, crd)
	}
	return crds, nil
}
