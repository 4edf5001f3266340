// SPDX-License-Identifier: Apache-2.0

package fakenodes

import (
	"context"
	"runtime"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/registry"
)

const (
	// Fake is the label of a Node that this package has made.
	Fake = "nodes.example.com/fake"

	nodeName = "spec.nodeName" // the index of Pods, and the field selector of API servers
	yes      = "true"
)

// nodes makes the upstream Nodes.
type nodes struct {
	id   syncer.Identity
	pair *syncer.Pair
}

// Item makes a Node upstream for each name in spec.nodeName of a Pod upstream, or of the copy of a Pod downstream.
func Item(id syncer.Identity) syncer.Item {
	return syncer.OfFake(&nodes{id: id}, syncer.Options[*corev1.Node]{})
}

func (n *nodes) Name() string { return "fake-nodes" }

// RegisterIndices adds indexes of Pods by the name of their Node. An API server has that index.
func (n *nodes) RegisterIndices(ctx context.Context, p *syncer.Pair) error {
	n.pair = p
	return p.With(ctx, func(ctx context.Context, up, down syncer.Access) error {
		for _, a := range []syncer.Access{up, down} {
			if a.Indexer == nil {
				continue
			}
			err := a.Indexer.IndexField(ctx, &corev1.Pod{}, nodeName, func(obj client.Object) []string {
				if p, ok := obj.(*corev1.Pod); ok && p.Spec.NodeName != "" {
					return []string{p.Spec.NodeName}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// ModifyController requests a Node for the events of its Pods.
func (n *nodes) ModifyController(p *syncer.Pair, b *registry.ControllerBuilder[reconcile.Request]) (*registry.ControllerBuilder[reconcile.Request], error) {
	node := func(_ context.Context, obj client.Object) []types.NamespacedName {
		if p, ok := obj.(*corev1.Pod); ok && p.Spec.NodeName != "" {
			return []types.NamespacedName{{Name: p.Spec.NodeName}}
		}
		return nil
	}
	up, err := p.WatchUpstream(&corev1.Pod{}, node)
	if err != nil {
		return nil, err
	}
	down, err := p.WatchDownstream(&corev1.Pod{}, node)
	if err != nil {
		return nil, err
	}
	return b.WatchesRawSource(up).WatchesRawSource(down), nil
}

// FakeSyncUp creates a Node that a Pod needs. Its status follows with the next reconcile.
func (n *nodes) FakeSyncUp(ctx context.Context, name types.NamespacedName, up syncer.Access) (reconcile.Result, error) {
	needed, err := n.isNeeded(ctx, name.Name)
	if err != nil || !needed {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, client.IgnoreAlreadyExists(up.Client.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name.Name,
		Labels: map[string]string{
			Fake: yes, corev1.LabelHostname: "fake-" + name.Name, corev1.LabelArchStable: runtime.GOARCH, corev1.LabelOSStable: "linux",
		},
	}}))
}

// FakeSync keeps the status of a Node, or deletes the Node. A Node without the label Fake stays as it is.
func (n *nodes) FakeSync(ctx context.Context, node *corev1.Node, up syncer.Access) (reconcile.Result, error) {
	if node.Labels[Fake] != yes || !node.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	needed, err := n.isNeeded(ctx, node.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	wanted := node.DeepCopy()
	wanted.Spec.Taints = slices.DeleteFunc(wanted.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
	wanted.Status = status(node)
	switch {
	case !needed:
		exactly := client.Preconditions{UID: &node.UID, ResourceVersion: &node.ResourceVersion}
		err = client.IgnoreNotFound(up.Client.Delete(ctx, node, exactly))
	case len(wanted.Spec.Taints) < len(node.Spec.Taints):
		err = up.Client.Update(ctx, wanted) // The event of this write makes the next reconcile.
	case !equality.Semantic.DeepEqual(wanted.Status, node.Status):
		err = up.Client.Status().Update(ctx, wanted)
	}
	return reconcile.Result{}, err
}

// isNeeded reports whether a Pod needs a Node. Pods of DaemonSets do not: they follow the Nodes.
func (n *nodes) isNeeded(ctx context.Context, name string) (needed bool, err error) {
	on := client.MatchingFields{nodeName: name}
	err = n.pair.With(ctx, func(ctx context.Context, up, down syncer.Access) error {
		var originals, copies corev1.PodList
		if err := up.Client.List(ctx, &originals, on); err != nil {
			return err
		}
		needed = slices.ContainsFunc(originals.Items, needsNode)
		if needed {
			return nil
		}
		keys := n.id.Keys()
		ours := client.MatchingLabels{keys.ManagedBy: n.id.Tenant}
		if err := down.Client.List(ctx, &copies, on, ours, client.InNamespace(n.id.TargetNamespace)); err != nil {
			return err
		}
		for i := range copies.Items {
			notes, original := copies.Items[i].Annotations, corev1.Pod{}
			err := up.Client.Get(ctx, types.NamespacedName{Namespace: notes[keys.ObjectNamespace], Name: notes[keys.ObjectName]}, &original)
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			needed = needed || err == nil && needsNode(original)
		}
		return nil
	})
	return needed, err
}

func needsNode(p corev1.Pod) bool {
	owner := metav1.GetControllerOf(&p)
	return owner == nil || owner.Kind != "DaemonSet"
}

// status returns the status of a Node that is ready. It is the same each time.
func status(node *corev1.Node) corev1.NodeStatus {
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("32Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	condition := func(t corev1.NodeConditionType, s corev1.ConditionStatus, reason string) corev1.NodeCondition {
		since := node.CreationTimestamp
		return corev1.NodeCondition{Type: t, Status: s, Reason: reason, LastHeartbeatTime: since, LastTransitionTime: since}
	}
	return corev1.NodeStatus{
		Capacity: size, Allocatable: size,
		Conditions: []corev1.NodeCondition{
			condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
			condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
			condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
			condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
		},
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: strings.ReplaceAll(node.Name, ".", "-") + ".nodes.example.com"},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: string(node.UID), SystemUUID: string(node.UID), BootID: string(node.UID),
			Architecture: runtime.GOARCH, OperatingSystem: "linux", OSImage: "fake", KernelVersion: "fake",
			ContainerRuntimeVersion: "fake://1", KubeletVersion: "fake",
		},
	}
}
