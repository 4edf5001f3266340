// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (d *demo) simulate(ctx context.Context) error {
	if d.nodes > 0 {
		d.progress.step("simulating %s and %s in each remote: objects only, nothing runs in them",
			number(d.nodes, "Node"), number(d.nodes*len(workloads()), "Pod"))
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
		if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	for i := range d.nodes {
		node := simulatedNode(fmt.Sprintf("%s-node-%d", r.Name(), i+1))
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
