// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/reconcilers/guard"
)

// digger is a provider that digs a tunnel in a cloud, in steps, like the tunnels of the original.
type digger struct {
	*controller
	process *process
	cloud   *cloud
}

func digs(p *process, c *cloud) factory {
	return factory{
		Name: "digger", ConditionType: kind,
		New: func(_ context.Context, ctl *controller) (guard.Provider, error) { return &digger{ctl, p, c}, nil },
	}
}

func (d *digger) Reconcile(ctx context.Context) (*reconcile.Result, error) {
	switch d.Settled() {
	case "":
		return &reconcile.Result{}, d.UpdateCondition(ctx, metav1.ConditionUnknown, "Initialized", "")
	case "Initialized":
		return &reconcile.Result{}, d.Guard(ctx, "create the tunnel", d.create)
	case "Created":
		return &reconcile.Result{}, d.Guard(ctx, "route", func(context.Context, guard.Attempt) (guard.Outcome, error) {
			return guard.Outcome{Status: metav1.ConditionTrue, Reason: "Completed"}, nil
		})
	}
	return nil, nil
}

func (d *digger) create(ctx context.Context, a guard.Attempt) (guard.Outcome, error) {
	var id string
	err := d.process.do(func() error {
		id = d.cloud.create(a.ID)
		return nil
	})
	if err != nil {
		return guard.Outcome{}, err
	}
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "token-"}, StringData: map[string]string{"token": secretToken}}
	if err := d.Create(ctx, token); err != nil {
		return guard.Outcome{}, err
	}
	err = d.UpdateStatus(ctx, func(t *Tunnel) error {
		t.Status.TunnelID = id
		return nil
	})
	return guard.Outcome{Status: metav1.ConditionFalse, Reason: "Created"}, err
}

const secretToken = "this-is-the-token-of-the-tunnel"

func (d *digger) Terminate(ctx context.Context) (*reconcile.Result, error) {
	if d.Settled() == "Terminated" {
		return nil, nil
	}
	err := d.Guard(ctx, "delete the tunnel", func(_ context.Context, a guard.Attempt) (guard.Outcome, error) {
		err := d.process.do(func() error {
			if a.Recovering { // The tunnel may exist without a record in the status.
				d.cloud.delete("tunnel-" + a.ID)
			}
			if id := d.Object().Status.TunnelID; id != "" {
				d.cloud.delete(id)
			}
			return nil
		})
		return guard.Outcome{Status: metav1.ConditionFalse, Reason: "Terminated"}, err
	})
	return nil, err
}

// hand is a replica whose reconciles a test calls directly, with live reads.
type hand struct {
	*server
	*process
	clock *guard.TestClock
	reconcile.Reconciler
}

func (s *server) byHand(o options, p *process, factories ...factory) *hand {
	s.T.Helper()
	h := newHost(s.T, p.client(s), o)
	r, err := guard.NewReconciler(h, factories...)
	must(s.T, err)
	ctx, cancel := context.WithCancel(s.T.Context())
	p.bury = cancel
	return &hand{s, p, h.SetClock(ctx), r}
}

func (h *hand) pass(name string) (reconcile.Result, error) {
	return h.Reconcile(h.T.Context(), reconcile.Request{NamespacedName: h.Key(name)})
}

// settle runs reconciles until no work remains, or the process dies.
func (h *hand) settle(name string) error {
	for range 30 {
		result, err := h.pass(name)
		switch {
		case h.isDead():
			return errKilled
		case err != nil && !apierrors.IsConflict(err):
			return err
		case result.RequeueAfter >= 5*time.Second: // Another holder has the lock, and this was the first reconcile to see it.
			h.clock.Skip(ttl)
		case result.RequeueAfter == 0:
			return nil
		}
	}
	return fmt.Errorf("%s does not settle: %+v", name, h.Read(name))
}
