// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"io/fs"
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/config"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(fleettest.Main(m, fleettest.NoLeaks())) }

// hub returns a real API server that serves the kind, and a client with strict field validation.
func hub(t *testing.T) (*fleet.Cluster, client.Client) {
	t.Helper()
	cluster := fleettest.Cluster(t, "hub")
	c := fleettest.Client(t, cluster, hubv1.AddToScheme)
	fleettest.InstallCRDs(t, cluster.Config())
	return cluster, client.WithFieldValidation(c, metav1.FieldValidationStrict)
}

func definition(t *testing.T, resource string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := fs.ReadFile(config.CRDs, "crd/clusterfx.dev_"+resource+".yaml")
	testkit.Must(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	testkit.Must(t, yaml.UnmarshalStrict(data, crd))

	return crd
}

func create(t *testing.T, c client.Client, name string) *hubv1.Cluster {
	t.Helper()
	cluster := &hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       hubv1.ClusterSpec{KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name}},
	}
	createOnce(t, c, cluster)

	return cluster
}

func createOnce(t *testing.T, c client.Client, cluster *hubv1.Cluster) {
	t.Helper()
	testkit.Must(t, c.Create(t.Context(), cluster))
	t.Cleanup(func() {
		testkit.NoError(t, c.Delete(context.WithoutCancel(t.Context()), cluster))
	})
}

// parse returns the Cluster that a user would write as YAML.
func parse(t *testing.T, name, rest string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(rest), &u.Object); err != nil {
		t.Fatalf("%v in:\n%s", err, rest)
	}
	u.SetGroupVersionKind(hubv1.GroupVersion.WithKind("Cluster"))
	u.SetName(name)

	return u
}
