// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// ProcessUpdate calls EnsureCreated of each resource in order, until one fails (its error is wrapped) or cancels the
// reconciliation. Without resources the error is ErrExecutionFailed. It begins a pass of its own, so a resource may
// consist of resources, and neither retries nor recovers from a panic.
func ProcessUpdate[O client.Object](ctx context.Context, obj O, resources []Resource[O]) error {
	ctx, _ = WithFlow(ctx)
	return walk(ctx, obj, resources, Resource[O].EnsureCreated)
}

// ProcessDelete calls EnsureDeleted in the same order and by the same rules. keep reports that the deletion is not
// complete, so the finalizer must stay.
func ProcessDelete[O client.Object](ctx context.Context, obj O, resources []Resource[O]) (keep bool, err error) {
	ctx, flow := WithFlow(ctx)
	err = walk(ctx, obj, resources, Resource[O].EnsureDeleted)
	return err != nil || flow.pass.keeps(), err
}

func walk[O client.Object](
	ctx context.Context, obj O, resources []Resource[O], ensure func(Resource[O], context.Context, O) error,
) error {
	if len(resources) == 0 {
		return fmt.Errorf("%w: resources must not be empty", ErrExecutionFailed)
	}
	p := FlowFrom(ctx).pass
	for _, resource := range resources {
		if p.canceled.isSet() {
			return nil
		}
		p.at = resource.Name()
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("resource %s: not started: %w", p.at, err)
		}
		one, flow := p.next(log.IntoContext(ctx, log.FromContext(ctx).WithValues("resource", p.at)))
		if err := ensure(resource, one, obj); err != nil {
			return fmt.Errorf("resource %s: %w", p.at, err)
		}
		if flow.ResourceCanceled() {
			p.skipped = append(p.skipped, fmt.Sprintf("resource %s: %s", p.at, flow.canceled.get()))
		}
	}
	return nil
}
