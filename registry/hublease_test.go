// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A lease of a hub part ends with the hub part, even if the context of its caller continues, and there is no further one. The remote
// is not affected.
func TestHubParts_LeasesEndWithTheHubPart(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "one")
	begin, ended := make(chan struct{}), make(chan error, 1)
	r, run, err := hubApp(t, hubModule("faulty", fx.Invoke(func(m ctrl.Manager, r *registry.Registry) error {
		return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
			select {
			case <-begin:
			case <-ctx.Done():
				return nil
			}
			lent := make(chan struct{})
			go func() {
				err := r.WithClient(context.WithoutCancel(ctx), "a", func(lease context.Context, _ client.Client) error {
					close(lent)
					<-lease.Done()
					return context.Cause(lease)
				})
				if errors.Is(err, registry.ErrStopped) {
					err = r.WithClient(context.WithoutCancel(ctx), "a", nil)
				}
				select {
				case ended <- err:
				default: // of a later life
				}
			}()
			<-lent
			return errors.New("the end")
		}))
	})).Option())
	must(t, err)
	run()
	spawn(t, r, "a", config)
	close(begin)
	expectPart(t, r, "faulty", state.ModuleFailed, "the end")
	eventually(t, func() error {
		select {
		case err := <-ended:
			testkit.ErrorIs(t, err, registry.ErrStopped, "the lease ended with, and another one began with")
			return nil
		default:
			return errors.New("a lease goes on although the hub part has ended")
		}
	})
	if info, _ := r.Status("a"); info.State != state.StateReady || info.Restarts > 0 {
		t.Errorf("got remote %+v, want Ready with 0 restarts", info)
	}
}
