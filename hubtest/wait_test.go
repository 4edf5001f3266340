// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/hubtest"
)

// After WaitCached, each read from the cache returns the written version.
func TestWaitCached(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(echo()))
	edge := hub.Remote("edge")
	inCache := func(c *corev1.ConfigMap) error {
		return hub.Registry().WithCluster(t.Context(), "edge", func(ctx context.Context, remote cluster.Cluster) error {
			return remote.GetCache().Get(ctx, client.ObjectKeyFromObject(c), c)
		})
	}
	for range 20 {
		written := shout("first")
		edge.Create(written)
		edge.WaitCached(written)
		written.Data["text"] = "second"
		if err := edge.Client().Update(t.Context(), written); err != nil {
			t.Fatal(err)
		}
		edge.WaitCached(written)
		read := configMap("shout")
		if err := errors.Join(inCache(read), equal(read.Data["text"], "second")); err != nil {
			t.Fatal(err)
		}
		edge.Delete(written)

		onHub := configMap("cached")
		hub.Create(onHub)
		hub.WaitCached(onHub)
		if err := hub.Cache().Get(t.Context(), client.ObjectKeyFromObject(onHub), configMap("x")); err != nil {
			t.Fatal(err)
		}
		hub.Delete(onHub)
	}
}

// A wait overwrites its object: data that the API server does not have is removed.
func TestWaitFor(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t)
	cm := shout("here")
	hub.Create(cm)
	cm.Data["another"] = "only here"
	looks := 0
	hub.WaitFor(cm, func() error {
		looks++
		if looks < 3 {
			return errors.New("look again")
		}
		return errors.Join(equal(cm.Data["text"], "here"), equal(cm.Data["another"], ""))
	})
	cm.Finalizers = []string{"example.com/held"}
	if err := hub.Client().Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	hub.Delete(cm)
	hub.WaitFor(cm, func() error {
		if cm.DeletionTimestamp == nil {
			return errors.New("it is not being deleted")
		}
		return nil
	})
	cm.Finalizers = nil
	if err := hub.Client().Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	hub.WaitGone(cm)
	hub.Delete(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "never-was"}})
}
