// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/guard"
)

func TestCreate_ForAClusterScopedObject(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	h, err := guard.NewHost[*corev1.Namespace](s, s, guard.Options[*corev1.Namespace]{Name: "spaces"})
	must(t, err)
	space := &corev1.Namespace{}
	must(t, s.Get(t.Context(), client.ObjectKey{Name: s.Namespace}, space))
	c, err := h.Controller(t.Context(), space, kind)
	must(t, err)
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child", Namespace: s.Namespace}}
	must(t, c.Guard(t.Context(), "dig", func(ctx context.Context, _ guard.Attempt) (guard.Outcome, error) {
		return done, c.Create(ctx, child)
	}))
	if child.Namespace != s.Namespace || child.OwnerReferences[0].Kind != "Namespace" || c.Namespace() != "" {
		t.Errorf("got child %+v", child)
	}
}
