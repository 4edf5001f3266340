// SPDX-License-Identifier: Apache-2.0

package objectsync_test

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
)

// hasWidgets waits until a namespace has so many Widgets.
func hasWidgets(t *testing.T, s *hubtest.Server, namespace string, want int) {
	t.Helper()
	s.Eventually(func() error {
		all := &unstructured.UnstructuredList{}
		all.SetGroupVersionKind(widgetKind)
		if err := s.Client().List(t.Context(), all, client.InNamespace(namespace)); err != nil {
			return err
		}
		return unless(len(all.Items) == want, len(all.Items))
	})
}

// When the definition of the originals of a one-to-one rule is deleted, all originals are being deleted with it. That is no evidence: 20
// of 60 copies go, and the finalizers of the other originals keep the definition until an operator decides.
func TestEngine_DefinitionDeleted(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, widgets)
	a := hub.Remote("a")
	crd := fleettest.CRD(t, widgetKind, "")
	hub.InstallCRDs(crd)
	hub.Create(namespace("tenant-a", nil))
	for i := range 60 {
		one := widget("tenant-a")
		one.SetName(fmt.Sprint("w-", i))
		hub.Create(one)
	}
	hasWidgets(t, &a.Server, "default", 60)
	hub.Restart() // What a rule has created a moment ago pays for deletes.
	a.WaitReady()
	hub.Delete(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: meta("", crd.Name, nil)})
	hasProblem(t, hub, "widgets", hubv1.SyncHeld)
	hasWidgets(t, &hub.Server, "tenant-a", 40)
	hasWidgets(t, &a.Server, "default", 40)
	info, _ := hub.Registry().Status("a")
	if why := "Of a parent: the CustomResourceDefinition " + crd.Name + " is being deleted"; !strings.Contains(info.DeletesHeld.Message, why) {
		t.Errorf("the condition says %q, want %q", info.DeletesHeld.Message, why)
	}
}
