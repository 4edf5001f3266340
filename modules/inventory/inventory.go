// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

type inventory struct {
	nodes, readyNodes int32
	cpu, memory       resource.Quantity
}

func count(nodes []corev1.Node) inventory {
	var sum inventory
	for i := range nodes {
		sum.add(of(&nodes[i]))
	}
	return sum
}

func of(node *corev1.Node) inventory {
	one := inventory{
		nodes:  1,
		cpu:    *node.Status.Allocatable.Cpu(),
		memory: *node.Status.Allocatable.Memory(),
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			one.readyNodes = 1
		}
	}
	return one
}

func (i *inventory) add(other inventory) {
	i.nodes += other.nodes
	i.readyNodes += other.readyNodes
	i.cpu.Add(other.cpu)
	i.memory.Add(other.memory)
}

func (i inventory) equals(other inventory) bool {
	return i.nodes == other.nodes && i.readyNodes == other.readyNodes &&
		i.cpu.Cmp(other.cpu) == 0 && i.memory.Cmp(other.memory) == 0
}

func (i inventory) isReported(status hubv1.InventoryStatus) bool {
	reported := status.Allocatable
	if status.Nodes == nil || status.ReadyNodes == nil || reported.CPU == nil || reported.Memory == nil {
		return false
	}
	return i.equals(inventory{
		nodes: *status.Nodes, readyNodes: *status.ReadyNodes,
		cpu: *reported.CPU, memory: *reported.Memory,
	})
}

func (i inventory) status() hubv1.InventoryStatus {
	return hubv1.InventoryStatus{
		Nodes: &i.nodes, ReadyNodes: &i.readyNodes, Allocatable: hubv1.AllocatableStatus{CPU: &i.cpu, Memory: &i.memory},
	}
}

// relevant drops updates that change nothing that is counted.
func relevant() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, wasNode := e.ObjectOld.(*corev1.Node)
		after, isNode := e.ObjectNew.(*corev1.Node)
		return !wasNode || !isNode || !of(before).equals(of(after))
	}}
}
