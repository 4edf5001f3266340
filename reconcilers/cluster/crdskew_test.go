// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/config"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
)

// A CRD that lacks fields of the status, on any level, does not prevent the hub and the inventory from writing the other fields. The hub
// names the fields once.
func TestReport_ToACRDThatLacksAField(t *testing.T) {
	t.Parallel()
	s := newSkew(t)
	paths := []string{
		"status.credentials.type", "status.inventory.nodes", "status.modules.controllers.reason", "status.modules.message", "status.version",
	}
	s.install(paths...)
	s.expectMissing(paths...)
	logged := s.report("lacks")
	if strings.Count(logged, "older than the hub") != 1 || !strings.Contains(logged, strings.Join(paths, `" "`)) {
		t.Errorf("the log does not name %q once:\n%s", paths, logged)
	}
	s.expectAllBut("lacks", paths...)
	s.install()
	s.expectMissing()
}

// skew is an API server whose CRD of Clusters differs from the CRD of the hub.
type skew struct {
	t      *testing.T
	direct client.Client
	crd    *apiextensionsv1.CustomResourceDefinition // of the hub
}

func newSkew(t *testing.T) *skew {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{hubv1.AddToScheme, apiextensionsv1.AddToScheme} {
		testkit.Must(t, add(scheme))
	}
	config := fleettest.Cluster(t, "oldcrd").Config()
	httpClient, err := rest.HTTPClientFor(config)
	testkit.Must(t, err)
	t.Cleanup(httpClient.CloseIdleConnections)
	direct, err := client.New(config, client.Options{HTTPClient: httpClient, Scheme: scheme})
	testkit.Must(t, err)
	return &skew{t: t, direct: direct, crd: crdOfTheHub(t)}
}

func crdOfTheHub(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := config.CRDs.ReadFile("crd/clusterfx.dev_clusters.yaml")
	testkit.Must(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	testkit.Must(t, yaml.UnmarshalStrict(text, crd))
	return crd
}

// status returns the schema of the status.
func (s *skew) status() apiextensionsv1.JSONSchemaProps {
	return s.crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
}

// fieldsOf returns the paths of all fields below the path of an object, sorted.
func fieldsOf(schema apiextensionsv1.JSONSchemaProps, path string) []string {
	if schema.Items != nil {
		return fieldsOf(*schema.Items.Schema, path)
	}
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		below := path + "." + name
		paths = append(append(paths, below), fieldsOf(schema.Properties[name], below)...)
	}
	return paths
}

// drop removes a field from a schema.
func drop(schema *apiextensionsv1.JSONSchemaProps, path []string) {
	if schema.Items != nil {
		drop(schema.Items.Schema, path)
		return
	}
	schema.Default = nil // which may contain the field
	if len(path) == 1 {
		delete(schema.Properties, path[0])
		schema.Required = slices.DeleteFunc(schema.Required, func(name string) bool { return name == path[0] })
		return
	}
	below := schema.Properties[path[0]]
	drop(&below, path[1:])
	schema.Properties[path[0]] = below
}

// install installs the CRD without some fields.
func (s *skew) install(lacks ...string) {
	s.t.Helper()
	crd := s.crd.DeepCopy()
	for _, path := range lacks {
		drop(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, strings.Split(path, "."))
	}
	installed := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name}}
	err := s.direct.Get(s.t.Context(), client.ObjectKeyFromObject(installed), installed)
	switch {
	case client.IgnoreNotFound(err) != nil:
	case err != nil:
		err = s.direct.Create(s.t.Context(), crd)
	default:
		installed.Spec = crd.Spec
		err = s.direct.Update(s.t.Context(), installed)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// whole returns a status with every field of the hub.
func whole() hubv1.ClusterStatus {
	status := fullStatus()
	status.Inventory, status.Remains = hubv1.InventoryStatus{}, nil // They are of other writers.
	return status
}

// expectMissing waits until the API server drops these fields of the status, and no other fields.
func (s *skew) expectMissing(want ...string) {
	s.t.Helper()
	gomega.NewWithT(s.t).Eventually(func() ([]string, error) {
		return MissingFields(s.t.Context(), s.direct)
	}).WithTimeout(time.Minute).WithPolling(20 * time.Millisecond).Should(gomega.Equal(want))
}

// report writes a whole status as the hub does, twice, and an inventory as its module does. It returns the log.
func (s *skew) report(name string) string {
	s.t.Helper()
	var logged strings.Builder
	ctx := log.IntoContext(s.t.Context(), funcr.New(func(_, line string) { fmt.Fprintln(&logged, line) }, funcr.Options{}))
	one := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	one.Spec.KubeconfigSecretRef.Name = name
	fatal(s.t, s.direct.Create(ctx, one))
	recorded := events.NewFakeRecorder(100)
	r := &reconciler{Client: s.direct, events: hubcontroller.Recorder{EventRecorder: recorded, Scheme: s.direct.Scheme()}}
	fatal(s.t, r.report(ctx, one, whole()))
	fatal(s.t, s.direct.Get(ctx, client.ObjectKeyFromObject(one), one))
	ended, cancel := context.WithCancel(ctx)
	cancel() // No request can be sent.
	told := len(recorded.Events)
	if err := r.report(ended, one, whole()); err != nil || len(recorded.Events) != told {
		s.t.Errorf("an unchanged status was reported again (%v)", err)
	}
	before := one.DeepCopy()
	one.Status.Inventory, one.Status.Remains = fullStatus().Inventory, fullStatus().Remains
	fatal(s.t, s.direct.Status().Patch(ctx, one, client.MergeFrom(before), lenient))
	return logged.String()
}

// expectAllBut checks that a Cluster has every field but these fields and the fields below them.
func (s *skew) expectAllBut(name string, lacks ...string) {
	s.t.Helper()
	one := &unstructured.Unstructured{}
	one.SetGroupVersionKind(hubv1.GroupVersion.WithKind("Cluster"))
	if err := s.direct.Get(s.t.Context(), client.ObjectKey{Name: name}, one); err != nil {
		s.t.Fatal(err)
	}
	for _, path := range fieldsOf(s.status(), "status") {
		isLacking := slices.ContainsFunc(lacks, func(lack string) bool { return path == lack || strings.HasPrefix(path, lack+".") })
		if has := hasField(one.Object, strings.Split(path, ".")); has == isLacking {
			s.t.Errorf("without %q: the presence of %s is %t", lacks, path, has)
		}
	}
}

func hasField(object any, path []string) bool {
	if list, ok := object.([]any); ok {
		return len(list) > 0 && hasField(list[0], path)
	}
	fields, ok := object.(map[string]any)
	if !ok {
		return false
	}
	below, ok := fields[path[0]]
	return ok && (len(path) == 1 || hasField(below, path[1:]))
}
