// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"slices"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
)

// Tunnel is the kind of the tests.
type Tunnel struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   TunnelSpec   `json:"spec,omitzero"`
	Status TunnelStatus `json:"status,omitzero"`
}

// TunnelSpec is the desired state.
type TunnelSpec struct {
	Company string `json:"company,omitempty"`
}

// TunnelStatus is the observed state.
type TunnelStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Locks      []lock.State       `json:"locks,omitempty"`
	TunnelID   string             `json:"tunnelID,omitempty"`
	Hosts      []string           `json:"hosts,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (t *Tunnel) DeepCopyObject() runtime.Object {
	c := *t
	t.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = slices.Clone(t.Status.Conditions)
	c.Status.Locks = slices.Clone(t.Status.Locks)
	for i := range t.Status.Locks {
		t.Status.Locks[i].DeepCopyInto(&c.Status.Locks[i])
	}
	c.Status.Hosts = slices.Clone(t.Status.Hosts)
	return &c
}

// TunnelList is a list of Tunnels.
type TunnelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Tunnel `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *TunnelList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Tunnel))
	}
	return &c
}

func conditions(t *Tunnel) *[]metav1.Condition { return &t.Status.Conditions }
func locks(t *Tunnel) *[]lock.State            { return &t.Status.Locks }

var tunnels = schema.GroupVersion{Group: "example.com", Version: "v1"}

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(s))
	must(t, apiextensionsv1.AddToScheme(s))
	addTunnels(s)
	return s
}

func addTunnels(s *runtime.Scheme) {
	s.AddKnownTypes(tunnels, &Tunnel{}, &TunnelList{})
	metav1.AddToGroupVersion(s, tunnels)
}

var must = testkit.Must

func object(properties map[string]apiextensionsv1.JSONSchemaProps, required ...string) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties, Required: required}
}

func listMap(items apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	kind := "map"
	return apiextensionsv1.JSONSchemaProps{
		Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items},
		XListType: &kind, XListMapKeys: []string{"type"},
	}
}

// crd returns the CRD of Tunnels, as controller-gen would generate it from the types.
func crd() *apiextensionsv1.CustomResourceDefinition {
	type properties = map[string]apiextensionsv1.JSONSchemaProps
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	date := apiextensionsv1.JSONSchemaProps{Type: "string", Format: "date-time"}
	number := apiextensionsv1.JSONSchemaProps{Type: "integer"}
	most, least, long := int64(1024), int64(1), int64(32768)
	condition := object(properties{
		"type": text, "status": text, "lastTransitionTime": date, "observedGeneration": number,
		"message": {Type: "string", MaxLength: &long},
		"reason": {
			Type: "string", MaxLength: &most, MinLength: &least, Pattern: `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`,
		},
	}, "type", "status", "reason", "message", "lastTransitionTime")
	record := object(properties{
		"type": text, "holder": text, "ttlSeconds": number, "acquiredAt": date, "renewedAt": date, "attempt": number,
		"attemptID": text, "runs": number, "intent": text, "settled": text, "revision": number,
	}, "type")
	whole := object(properties{
		"spec": object(properties{"company": text}),
		"status": object(properties{
			"conditions": listMap(condition), "locks": listMap(record), "tunnelID": text,
			"hosts": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &text}},
		}),
	})
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "tunnels." + tunnels.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: tunnels.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "tunnels", Singular: "tunnel", Kind: "Tunnel", ListKind: "TunnelList",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: tunnels.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &whole},
			}},
		},
	}
}
