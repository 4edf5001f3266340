// SPDX-License-Identifier: Apache-2.0

package renewal_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
)

// part is the share of a replica.
type part struct {
	mu    sync.Mutex
	has   map[registry.ClusterName]bool
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]
}

func (p *part) RoleOf(name registry.ClusterName, _ types.UID) (cluster.Role, hubv1.RunnerStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.has[name] {
		return cluster.RoleNone, hubv1.RunnerStatus{}
	}
	return cluster.RoleRunner, hubv1.RunnerStatus{Name: "hub-0", Type: hubv1.RunnerHub, Version: "v1"}
}

func (p *part) Prepared(types.UID)          {}
func (p *part) Forget(registry.ClusterName) {}

func (p *part) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.queue = queue
		return nil
	})
}

// take makes the replica the runner of a Cluster.
func (p *part) take(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.has[registry.ClusterName(name)] = true
	if p.queue != nil {
		p.queue.Add(ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
}

func (s *management) shared() fx.Option {
	if s.share == nil {
		return fx.Options()
	}
	return fx.Supply(fx.Annotate(s.share, fx.As(new(cluster.Share))))
}

// A replica renews the tokens of the remotes that it runs. It reports nothing about the tokens of others, also where one cannot be
// renewed. When a remote moves to the replica, its token is renewed.
func TestRenewal_Elsewhere(t *testing.T) {
	t.Parallel()
	s, share := newManagement(t), &part{has: map[registry.ClusterName]bool{}}
	s.share = share
	t.Cleanup(s.start(t))
	ours, moves, theirs := s.namespace+"-ours", s.namespace+"-moves", s.namespace+"-theirs"
	remote := newIssuer(t, func(asked time.Duration) string { return jwt(0, asked, 0) })
	share.take(ours)
	remote.register(t, s, theirs, "opaque")
	moving := remote.register(t, s, moves, dueNow())
	remote.register(t, s, ours, dueNow())
	expectEvent(t, s, ours, "TokenRenewed", "expires at")
	for _, name := range []string{theirs, moves} { // The hub knows the Clusters now.
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
		must(t, s.Patch(t.Context(), secret, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"changed":"once"}}}`))))
	}
	share.take(moves)
	expectEvent(t, s, moves, "TokenRenewed", "expires at")
	eventually(t, func() error {
		var now corev1.Secret
		if err := s.Get(t.Context(), client.ObjectKeyFromObject(moving), &now); err != nil {
			return err
		}
		if string(now.Data["token"]) == string(moving.Data["token"]) {
			return errors.New("the Secret has its old token")
		}
		return nil
	})
	var all eventsv1.EventList
	must(t, s.List(t.Context(), &all, client.InNamespace("default")))
	for _, e := range all.Items {
		if e.Reason == "RenewalFailed" && (e.Regarding.Name == theirs || e.Regarding.Name == moves) {
			t.Errorf("the replica reports a failure of %s: %s", e.Regarding.Name, e.Note)
		}
	}
}
