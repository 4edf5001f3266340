// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry"
)

// inUseWithin is the bound from the change of a Secret until the app uses its credential.
const inUseWithin = 2 * time.Second

// apart is the time between two rotations. The hub reads a Secret at most every two seconds if it changes more often.
const apart = 2500 * time.Millisecond

// drained is longer than the time for which connections with a replaced certificate continue.
const drained = 12 * time.Second

// rotated has remotes whose credentials are replaced under load, a remote for each kind of credential.
func rotated(t *testing.T, s *stage) {
	t.Helper()
	t.Run("of each kind", func(t *testing.T) { // ends when its parallel subtests have ended
		for _, kind := range credentialKinds {
			t.Run(kind.name, func(t *testing.T) {
				t.Parallel()
				slowest := worst(s.rotate(t, kind, 3))
				if slowest > inUseWithin {
					t.Errorf("a new %s was in use after %s, want at most 2s", kind.name, slowest)
				}
				t.Logf("a new %s was in use after %s at most", kind.name, slowest)
			})
		}
	})
}

// credentialKind is a way of minting a credential.
type credentialKind struct {
	name string
	mint func(*fleet.Cluster, context.Context, fleet.User) (*fleet.Credential, error)
	// account returns the name that the API server gives the user.
	account func(user string) string
}

var credentialKinds = []credentialKind{
	{"token", (*fleet.Cluster).MintToken, func(user string) string { return "system:serviceaccount:kube-system:" + user }},
	{"certificate", (*fleet.Cluster).MintCertificate, func(user string) string { return user }},
}

// rotate replaces the credential of a remote n times, each time by the credential of another user, and returns the time
// from each change of the Secret until the API server received the first request of the new user. It fails the test if
// a lease fails, an informer relists, or the app restarts.
func (s *stage) rotate(t *testing.T, kind credentialKind, n int) []time.Duration {
	t.Helper()
	r := s.newRemote(t, "rotated-"+kind.name, s.cluster(calm))
	mint := func(i int) (user string, kubeconfig []byte) {
		user = fmt.Sprintf("%s-%d", r.name, i)
		minted, err := kind.mint(r.on, t.Context(), fleet.User{Name: user, Rules: allRights, Lifetime: 30 * 24 * time.Hour})
		must(t, err)
		return user, minted.Kubeconfig()
	}
	_, first := mint(0)
	r.registerAs(first)
	r.expectReady(patience)
	r.expectWorking()
	epoch, began := r.epoch(), time.Now()
	r.since = began
	finish := r.borrow(t, 4)
	var took []time.Duration
	for i := range n {
		r.staysReady(epoch, apart)
		user, kubeconfig := mint(i + 1)
		must(t, r.store(kubeconfig))
		took = append(took, r.firstRequestOf(kind.account(user)).Sub(r.since))
	}
	r.since = time.Now()
	r.staysReady(epoch, drained)
	calls := finish()
	r.expectWorking()
	lists, err := r.on.AuditEvents(fleet.ByAgent(r.agent()), fleet.Since(began), fleet.AuditEvent.Lists)
	must(t, err)
	for _, e := range lists {
		t.Errorf("an informer relisted: %s", e)
	}
	t.Logf("%d leases during %d rotations of a %s", calls, n, kind.name)
	return took
}

// firstRequestOf waits until the API server has received a request of an app of the remote by a user, and returns its
// time.
func (r *remote) firstRequestOf(account string) (at time.Time) {
	r.t.Helper()
	eventually(r.t, func() error {
		seen, err := r.on.AuditEvents(fleet.ByAgent(r.agent()), fleet.Since(r.since),
			func(e fleet.AuditEvent) bool { return e.User.Username == account })
		if err != nil || len(seen) == 0 {
			return fmt.Errorf("no request by %s: %w", account, err)
		}
		at = seen[0].Received
		return nil
	})
	return at
}

// borrow starts callers that borrow the remote's client, and read and write with it, until finish is called. The test
// fails if a lease fails. finish returns the number of leases.
func (r *remote) borrow(t *testing.T, callers int) (finish func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	var mu sync.Mutex
	calls := 0
	for range callers {
		working.Go(func() {
			every(ctx, leaseEvery, func(ctx context.Context, i int) {
				err := r.stage.remotes().WithClient(ctx, registry.ClusterName(r.name), func(ctx context.Context, c client.Client) error {
					return use(ctx, c, r.name, i)
				})
				if ctx.Err() != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				calls++
				if err != nil {
					r.refused.Add(1)
					t.Errorf("lease %d of %s: %v", calls, r.name, err)
				}
			})
		})
	}
	finish = sync.OnceValue(func() int {
		cancel()
		working.Wait()
		return calls
	})
	t.Cleanup(func() { finish() })
	return finish
}

// use lists with a client, and sometimes sends a dry-run write.
func use(ctx context.Context, c client.Client, namespace string, i int) error {
	var list corev1.ConfigMapList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil || i%liveEvery > 0 {
		return err
	}
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "lease-"}}
	return c.Create(ctx, one, client.DryRunAll)
}

// failed returns the number of leases of borrow that failed.
func (r *remote) failed() int { return int(r.refused.Load()) }

// keepWriting writes objects to the remote until finish is called, so that its reconciler always has work.
func (r *remote) keepWriting(t *testing.T) (finish func()) {
	t.Helper()
	admin := r.stage.clientFor(t, r.on.Config())
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		every(ctx, 10*time.Millisecond, func(ctx context.Context, _ int) {
			err := r.stage.stopwatch.write(ctx, admin, registry.ClusterName(r.name), r.name)
			if err != nil && ctx.Err() == nil {
				t.Errorf("write in %s: %v", r.name, err)
			}
		})
	})
	finish = sync.OnceFunc(func() {
		cancel()
		writing.Wait()
	})
	t.Cleanup(finish)
	return finish
}
