// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"errors"
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// death is the point at which a process is killed.
type death struct {
	step int
	late bool // after the step has had its effect
}

// TestCrash_AtEachStep kills the hub after each step of the life of a tunnel, when the step has had its effect and the
// hub does not know it, and continues with another replica. Only visible effects are steps: a process that dies before
// a step, or during a read, has the same effect as a process that dies after the previous step.
func TestCrash_AtEachStep(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		for step := 1; ; step++ {
			l := newLife(s, o, fmt.Sprintf("t-%d", step), death{step: step, late: true})
			must(t, l.live())
			if l.deaths == 0 { // The life has fewer steps.
				if step <= 12 {
					t.Errorf("life of a tunnel has only %d steps, want more than 12", step-1)
				}
				return
			}
		}
	})
}

// life is the life of a tunnel, with the replicas that reconcile it.
type life struct {
	*server
	options options
	name    string
	plan    []death
	deaths  int
	cloud   cloud
	replica *hand
}

func newLife(s *server, o options, name string, plan ...death) *life {
	return &life{server: s, options: o, name: name, plan: plan}
}

// next starts a replica, which is killed as planned.
func (l *life) next() {
	p := &process{}
	if len(l.plan) > 0 {
		p.killAt, p.late = l.plan[0].step, l.plan[0].late
		l.plan = l.plan[1:]
	}
	l.replica = l.byHand(l.options, p, digs(p, &l.cloud))
}

// settle runs replicas until one of them settles the tunnel.
func (l *life) settle() error {
	for {
		err := l.replica.settle(l.name)
		if !errors.Is(err, errKilled) {
			return err
		}
		l.deaths++
		l.next()
	}
}

// live creates and deletes the tunnel, and checks that the external system saw both once.
func (l *life) live() error {
	tunnel := l.Make(l.name)
	l.next()
	if err := l.settle(); err != nil {
		return err
	}
	if err := check(l.Read(l.name), "True", "Completed"); err != nil {
		return err
	}
	if made, left := l.cloud.everMade(), l.cloud.left(); made != 1 || left != 1 {
		return fmt.Errorf("after the creation: %d tunnels were created, %d exist, want 1 and 1", made, left)
	}
	var secrets corev1.SecretList
	if err := l.List(l.T.Context(), &secrets, client.InNamespace(l.Namespace)); err != nil {
		return err
	}
	tokens := 0
	for _, secret := range secrets.Items {
		if secret.OwnerReferences[0].UID == tunnel.UID {
			tokens++
		}
	}
	if tokens != 1 {
		return fmt.Errorf("got %d Secrets of the tunnel, want 1", tokens)
	}
	return l.end(tunnel)
}

func (l *life) end(tunnel *Tunnel) error {
	if err := l.Delete(l.T.Context(), tunnel); err != nil {
		return err
	}
	if err := l.settle(); err != nil {
		return err
	}
	if err := l.Get(l.T.Context(), l.Key(l.name), tunnel); !apierrors.IsNotFound(err) {
		return fmt.Errorf("tunnel still exists: %w", err)
	}
	if made, left := l.cloud.everMade(), l.cloud.left(); made > 1 || left != 0 {
		return fmt.Errorf("after the deletion: %d tunnels were created, %d exist", made, left)
	}
	if err := l.host(l.options).Sweep(l.T.Context()); err != nil { // as AddTo does at its start
		return err
	}
	var leases coordinationv1.LeaseList
	if err := l.List(l.T.Context(), &leases, client.InNamespace("default")); err != nil {
		return err
	}
	for _, lease := range leases.Items {
		if lease.Annotations["guard.clusterfx.dev/object"] == "Tunnel.example.com "+l.Key(l.name).String() {
			return fmt.Errorf("Lease %s remains", lease.Name)
		}
	}
	return nil
}
