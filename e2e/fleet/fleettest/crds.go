// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/config"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// InstallCRDs creates or updates clusterfx's CRDs, and returns when they are served. Tests may call it at once.
func InstallCRDs(tb testing.TB, hub *rest.Config) {
	tb.Helper()
	crds, err := pool.ReadCRDs(config.CRDs)
	testkit.Must(tb, err)
	testkit.Must(tb, pool.InstallCRDs(tb.Context(), ClientFor(tb, hub), crds))
}

// CRD returns the definition of a kind of objects in namespaces, with a status. Its OpenAPI schema is in YAML; an empty one
// allows all fields.
func CRD(tb testing.TB, kind schema.GroupVersionKind, openAPI string) *apiextensionsv1.CustomResourceDefinition {
	tb.Helper()
	if openAPI == "" {
		openAPI = "{type: object, x-kubernetes-preserve-unknown-fields: true}"
	}
	fields := &apiextensionsv1.JSONSchemaProps{}
	if err := yaml.UnmarshalStrict([]byte(openAPI), fields); err != nil {
		tb.Fatalf("read the schema of %s: %v", kind.Kind, err)
	}
	one := strings.ToLower(kind.Kind)
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: one + "s." + kind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: one + "s", Singular: one, Kind: kind.Kind, ListKind: kind.Kind + "List",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: kind.Version, Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: fields},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}
