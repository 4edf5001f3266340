// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var errKilled = errors.New("the process was killed")

// process is a process that tests can kill. After the kill, its actions have no effect. Until then, real API servers
// handle its requests.
type process struct {
	mu     sync.Mutex
	dead   bool
	bury   func() // called when it dies
	steps  int
	killAt int  // the step at which it dies; 0: never
	late   bool // dies after the effect of the step, before it receives the result
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.die()
}

// revive lets it continue, like a process that was temporarily cut off from the API server.
func (p *process) revive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = false
}

func (p *process) die() {
	p.dead = true
	if p.bury != nil {
		p.bury()
	}
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// look calls f, which has no visible effect, so that the call is no step.
func (p *process) look(f func() error) error {
	if p.isDead() {
		return errKilled
	}
	return f()
}

// do performs one visible step, unless the process is dead.
func (p *process) do(f func() error) error {
	p.mu.Lock()
	p.steps++
	if p.dead || p.steps == p.killAt && !p.late {
		p.die()
		p.mu.Unlock()
		return errKilled
	}
	dies := p.steps == p.killAt
	p.mu.Unlock()
	err := f()
	if dies {
		p.kill()
	}
	if p.isDead() {
		return errKilled
	}
	return err
}

func (p *process) client(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return p.look(func() error { return c.Get(ctx, key, obj, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return p.do(func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return p.do(func() error { return c.Update(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return p.do(func() error { return c.Delete(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return p.do(func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			return p.do(func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
		SubResourceApply: func(
			ctx context.Context, c client.Client, sub string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
		) error {
			return p.do(func() error { return c.SubResource(sub).Apply(ctx, obj, opts...) })
		},
	})
}
