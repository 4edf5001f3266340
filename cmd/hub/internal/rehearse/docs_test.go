// SPDX-License-Identifier: Apache-2.0

package rehearse_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/examples/podcount/podcount"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// nextPodcount is the version of the page: it reports one number for all namespaces.
func nextPodcount() registry.Module {
	return registry.NewModule("podcount", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		return registry.ControllerManagedBy(p.Manager).Named("podcount").
			WatchesRawSource(watch.InitialRequest(ctrl.Request{NamespacedName: client.ObjectKey{Name: "all"}})).
			Complete(reconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
				var pods corev1.PodList
				if err := p.Client.List(ctx, &pods); err != nil {
					return ctrl.Result{}, err
				}
				of := p.Status.Owner
				report := corev1ac.ConfigMap("podcount-"+string(p.Name), "default").
					WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion(of.APIVersion).WithKind(of.Kind).WithName(of.Name).WithUID(of.UID)).
					WithData(map[string]string{"total": strconv.Itoa(len(pods.Items))})
				return ctrl.Result{}, p.HubClient.Apply(ctx, report, client.FieldOwner("podcount"), client.ForceOwnership)
			}))
	})})
}

// The page about rehearsals shows what they print.
func TestDocs_Rehearsal(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Modules(podcount.Module), hubtest.Remotes("edge-eu-1", "edge-us-1"))
	for _, name := range []string{"edge-eu-1", "edge-us-1"} {
		hub.Remote(name).Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		})
		report := configMap("podcount-"+name, nil)
		hub.WaitFor(report, func() error {
			if report.Data["default"] != "1" {
				return errNotCounted
			}
			return nil
		})
	}
	page, err := os.ReadFile("../../../../docs/rehearsal.md")
	must(t, err)
	for _, version := range []registry.Module{podcount.Module, nextPodcount()} {
		report := run(t, options(hub.Config(), version))
		report.Version, report.Digest, report.Configuration = "v1.5.0", "sha256:5e2a61c09b1f77d3", "8a1c24f09e7b6d53"
		if shown := printed(t, report); !strings.Contains(string(page), "```\n"+shown+"```") {
			t.Errorf("docs/rehearsal.md does not show this output:\n%s", shown)
		}
	}
}
