// SPDX-License-Identifier: Apache-2.0

package podcount

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// CountPods adds the counter to a remote's app. In a registry.Remote unnamed dependencies belong to the remote, the
// others name the hub.
func CountPods(p registry.Remote) error {
	c := &counter{remote: p.Client, hub: p.HubClient, report: "podcount-" + string(p.Name), cluster: p.Status.Owner}
	return registry.ControllerManagedBy(p.Manager).
		Named("podcount").
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(c.request)).
		WatchesRawSource(watch.InitialRequest(c.only())). // also where no Pod is
		Complete(c)
}

// counter counts the Pods of one remote.
type counter struct {
	remote client.Reader // from the app's cache
	hub    client.Client // the manage-client
	report string        // the ConfigMap in the hub

	cluster metav1.OwnerReference // whose end the report does not outlive
	last    map[string]string     // the counts of the last report
}

func (c *counter) only() ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Name: c.report}}
}

func (c *counter) request(context.Context, client.Object) []ctrl.Request {
	return []ctrl.Request{c.only()}
}

// Reconcile counts the Pods, and reports a changed result.
func (c *counter) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var pods corev1.PodList
	if err := c.remote.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list the Pods: %w", err)
	}
	counted := count(pods.Items)
	if c.last != nil && maps.Equal(counted, c.last) {
		return ctrl.Result{}, nil
	}
	report := corev1ac.ConfigMap(c.report, metav1.NamespaceDefault).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(c.cluster.APIVersion).WithKind(c.cluster.Kind).
			WithName(c.cluster.Name).WithUID(c.cluster.UID)).
		WithData(counted)
	if err := c.hub.Apply(ctx, report, owner, client.ForceOwnership); err != nil {
		return ctrl.Result{}, fmt.Errorf("write the count: %w", err)
	}
	c.last = counted
	return ctrl.Result{}, nil
}

func count(pods []corev1.Pod) map[string]string {
	numbers := map[string]int{}
	for i := range pods {
		numbers[pods[i].Namespace]++
	}
	texts := map[string]string{}
	for namespace, n := range numbers {
		texts[namespace] = strconv.Itoa(n)
	}
	return texts
}
