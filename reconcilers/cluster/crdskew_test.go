// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	hubac "github.com/clusterfx/clusterfx/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/clusterfx/clusterfx/config"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/reconcilers/oldcrd"
)

// A CRD that lacks fields of the status, on any level, does not prevent the hub and the inventory from writing the other fields.
func TestReport_ToACRDThatLacksAField(t *testing.T) {
	t.Parallel()
	s := newSkew(t)
	paths := []string{
		".status.modules.controllers.reason", ".status.modules.message", ".status.version", ".status.credentials.type", ".status.inventory.nodes",
	}
	s.install(paths...)
	s.expectRefused("lacks", paths...)
	s.report("lacks", paths...)
	s.expectAllBut("lacks", paths...)
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
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config := fleettest.Cluster(t, "oldcrd").Config()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(httpClient.CloseIdleConnections)
	direct, err := client.New(config, client.Options{HTTPClient: httpClient, Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &skew{t: t, direct: direct, crd: crdOfTheHub(t)}
}

func crdOfTheHub(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := config.CRDs.ReadFile("crd/clusterfx.dev_clusters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
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
		drop(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, strings.Split(strings.TrimPrefix(path, "."), "."))
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

// whole returns a status with every field.
func whole() hubv1.ClusterStatus {
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return hubv1.ClusterStatus{
		Conditions: []metav1.Condition{{
			Type: hubv1.ConditionReady, Status: metav1.ConditionTrue, Reason: hubv1.ReasonReady, Message: "message",
			ObservedGeneration: 1, LastTransitionTime: now,
		}},
		ObservedGeneration: 1, ID: "id", Server: "https://server", Version: "v1.36.3", ModuleSummary: "1/1",
		Runner:      hubv1.RunnerStatus{Name: "hub-0", Type: hubv1.RunnerHub, Version: "v1", Epoch: 1, Since: now},
		Credentials: hubv1.CredentialsStatus{Type: "Token", Fingerprint: "fingerprint", ExpirationTime: now},
		Modules: []hubv1.ModuleStatus{{
			Name: "dns", State: hubv1.ModuleRunning, Reason: "reason", Message: "message",
			Controllers: []hubv1.ControllerStatus{{Name: "dns", State: hubv1.ModuleRunning, Reason: "reason", Message: "message"}},
		}},
	}
}

func inventory() *hubac.InventoryStatusApplyConfiguration {
	return hubac.InventoryStatus().WithNodes(1).WithReadyNodes(1).WithAllocatable(
		hubac.AllocatableStatus().WithCPU(resource.MustParse("1")).WithMemory(resource.MustParse("1Gi")))
}

// undeclared matches the path of an unknown field in the error of an API server, and inList the index of an element of
// a list in it.
var (
	undeclared = regexp.MustCompile(`(\S+): field not declared in schema`)
	inList     = regexp.MustCompile(`\[[^\]]*\]`)
)

// expectRefused creates the Cluster, and waits until the API server rejects some of these fields, and no other fields.
func (s *skew) expectRefused(name string, want ...string) {
	s.t.Helper()
	gomega.NewWithT(s.t).Eventually(func() error {
		one := &hubv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       hubv1.ClusterSpec{KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name}},
		}
		if err := s.direct.Create(s.t.Context(), one); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
		desired := hubac.Cluster(name).WithStatus(clusterstatus.ApplyConfiguration(whole()).WithInventory(inventory()))
		err := s.direct.Status().Apply(s.t.Context(), desired, client.FieldOwner("test"), client.ForceOwnership, client.DryRunAll)
		if err == nil {
			return fmt.Errorf("got no rejected field, want %q", want)
		}
		var got []string
		for _, found := range undeclared.FindAllStringSubmatch(err.Error(), -1) {
			got = append(got, inList.ReplaceAllString(found[1], ""))
		}
		slices.Sort(got)
		got = slices.Compact(got)
		others := slices.ContainsFunc(got, func(path string) bool { return !slices.Contains(want, path) })
		if others || len(got) < min(2, len(want)) { // The API server does not name all of them at once.
			return fmt.Errorf("got rejected fields %q, want %q: %w", got, want, err)
		}
		return nil
	}).WithTimeout(time.Minute).WithPolling(20 * time.Millisecond).Should(gomega.Succeed())
}

// report writes a whole status as the hub does, and an inventory as its module does.
func (s *skew) report(name string, lacks ...string) {
	s.t.Helper()
	ctx := s.t.Context()
	recorded := events.NewFakeRecorder(100)
	r := &reconciler{Client: s.direct, events: hubcontroller.Recorder{EventRecorder: recorded, Scheme: s.direct.Scheme()}}
	report := func() (before, after string) {
		var one hubv1.Cluster
		if err := s.direct.Get(ctx, client.ObjectKey{Name: name}, &one); err != nil {
			s.t.Fatal(err)
		}
		before = one.ResourceVersion
		if err := r.report(ctx, &one, whole()); err != nil {
			s.t.Fatalf("without %q: %v", lacks, err)
		}
		if err := s.direct.Get(ctx, client.ObjectKey{Name: name}, &one); err != nil {
			s.t.Fatal(err)
		}
		return before, one.ResourceVersion
	}
	report()
	told := len(recorded.Events)
	if before, after := report(); before != after || len(recorded.Events) != told {
		s.t.Errorf("without %q: an unchanged status was reported again", lacks)
	}
	var writer oldcrd.Writer
	_, err := writer.Apply(ctx, s.direct.Status(), hubac.Cluster(name).WithStatus(hubac.ClusterStatus().WithInventory(inventory())),
		client.FieldOwner("inventory"), client.ForceOwnership)
	if err != nil {
		s.t.Fatalf("inventory without %q: %v", lacks, err)
	}
}

// expectAllBut checks that a Cluster has every field but these fields and the fields below them.
func (s *skew) expectAllBut(name string, lacks ...string) {
	s.t.Helper()
	one := &unstructured.Unstructured{}
	one.SetGroupVersionKind(hubv1.GroupVersion.WithKind("Cluster"))
	if err := s.direct.Get(s.t.Context(), client.ObjectKey{Name: name}, one); err != nil {
		s.t.Fatal(err)
	}
	for _, path := range fieldsOf(s.status(), ".status") {
		isLacking := slices.ContainsFunc(lacks, func(lack string) bool { return path == lack || strings.HasPrefix(path, lack+".") })
		if has := hasField(one.Object, strings.Split(path[1:], ".")); has == isLacking {
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
