// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

func (d *demo) simulate(ctx context.Context) error {
	if d.nodes > 0 {
		d.terminal.Step("simulating %s and %s in each remote: objects only, nothing runs in them",
			output.Count(d.nodes, "Node"), output.Count(d.nodes*len(workloads()), "Pod"))
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range d.remotes {
		group.Go(func() error {
			if err := d.simulateIn(ctx, r); err != nil {
				return fmt.Errorf("simulate objects in %s: %w", r.Name(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (d *demo) simulateIn(ctx context.Context, r remote) error {
	c, err := client.New(r.Config(), client.Options{Scheme: d.scheme})
	if err != nil {
		return err
	}
	for _, name := range namespaces() {
		labels := map[string]string{"team": name} // as the example quota asks for
		if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
			return err
		}
	}
	for i := range d.nodes {
		node := simulatedNode(fmt.Sprintf("%s-node-%d", r.Name(), i+1), r.version)
		if err := c.Create(ctx, node); err != nil {
			return err
		}
		for _, w := range workloads() {
			if err := runPod(ctx, c, simulatedPod(w, node.Name, i+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// runPod says that the Pod runs, as a kubelet would.
func runPod(ctx context.Context, c client.Client, pod *corev1.Pod) error {
	status := pod.Status
	if err := c.Create(ctx, pod); err != nil {
		return err
	}
	pod.Status = status
	return c.Status().Update(ctx, pod)
}

// labelSimulated marks simulated objects.
const labelSimulated = "clusterfx.dev/simulated"

// workload is the simulated workload of each Node.
type workload struct{ namespace, name string }

func workloads() []workload {
	return []workload{{"shop", "web"}, {"shop", "cart"}, {"billing", "api"}, {"monitoring", "agent"}}
}

func namespaces() []string { return []string{"shop", "billing", "monitoring"} }

// simulatedNode is a Node that says it is ready. It has no kubelet.
func simulatedNode(name, version string) *corev1.Node {
	size := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("4"),
		corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	now := metav1.Now()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:   name,
			Labels: map[string]string{labelSimulated: "true", corev1.LabelHostname: name},
		},
		Status: corev1.NodeStatus{
			Capacity:    size,
			Allocatable: size,
			NodeInfo:    corev1.NodeSystemInfo{KubeletVersion: version},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated",
				Message:           "this Node is simulated by hub dev",
				LastHeartbeatTime: now, LastTransitionTime: now,
			}},
		},
	}
}

// simulatedPod is a Pod that says it runs on a node.
func simulatedPod(w workload, node string, number int) *corev1.Pod {
	now := metav1.Now()
	const container, image = "main", "example.com/simulated"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace,
			Name:      fmt.Sprintf("%s-%d", w.name, number),
			Labels:    map[string]string{labelSimulated: "true", "app": w.name},
		},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: container, Image: image}},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			StartTime:  &now,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: container, Image: image, Ready: true,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
			}},
		},
	}
}
