// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// errSlow is the cause of a wait that took too long.
var errSlow = errors.New("the remotes did not become Ready in time")

// waitReady returns when every remote is Ready, and says so of each as soon as it is.
func (d *demo) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.timeout, errSlow)
	defer cancel()
	begin := time.Now()
	seen := map[string]bool{}
	var last hubv1.ClusterList
	err := poll(ctx, func() (bool, error) {
		select {
		case <-d.running.done:
			return false, d.hubEnded()
		default:
		}
		if err := d.client.List(ctx, &last); err != nil {
			return false, fmt.Errorf("list Clusters: %w", err)
		}
		for _, c := range last.Items {
			if isReady(&c) && !seen[c.Name] {
				seen[c.Name] = true
				d.progress.done("cluster.%s/%s ready   %s modules   %s",
					hubv1.GroupName, c.Name, c.Status.ModuleSummary, since(begin))
			}
		}
		return len(seen) == len(d.remotes), nil
	})
	if errors.Is(context.Cause(ctx), errSlow) {
		return fmt.Errorf("%w: %s", errSlow, describe(&last))
	}
	return err
}

func isReady(c *hubv1.Cluster) bool {
	return meta.IsStatusConditionTrue(c.Status.Conditions, hubv1.ConditionReady)
}

// describe says of each cluster that is not Ready why.
func describe(list *hubv1.ClusterList) string {
	text := fmt.Sprintf("the hub knows %d clusters", len(list.Items))
	for _, c := range list.Items {
		if ready := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionReady); ready != nil && ready.Status != metav1.ConditionTrue {
			text += fmt.Sprintf("\n  %s: %s: %s", c.Name, ready.Reason, ready.Message)
		}
	}
	return text
}
