// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// WaitHeld waits for held deletes of a module in the hub's API server or in all remotes together. Of several it
// returns the first by id.
func (h *Hub) WaitHeld(module string) deletes.Hold {
	h.tb.Helper()
	return h.waitHeld(module, func(hold deletes.Hold) bool { return hold.Fleet || hold.Cluster == "" })
}

// WaitHeld waits for held deletes of a module in this remote, and the condition DeletesHeld. Of several it returns
// the first by id.
func (r *Remote) WaitHeld(module string) deletes.Hold {
	r.tb.Helper()
	hold := r.waitHeld(module, func(hold deletes.Hold) bool { return !hold.Fleet && hold.Cluster == r.Name() })
	r.WaitCondition(hubv1.ConditionDeletesHeld, metav1.ConditionTrue, hubv1.ReasonLimitExceeded)
	return hold
}

func (s *Server) waitHeld(module string, matches func(deletes.Hold) bool) (found deletes.Hold) {
	s.tb.Helper()
	s.wait("deletes of module "+module+" to be held", func(context.Context) error {
		running, err := s.site.process.running()
		if err != nil {
			return err
		}
		all := running.Registry.HeldDeletes()
		for _, hold := range all {
			if hold.Module == module && matches(hold) {
				found = hold
				return nil
			}
		}
		return fmt.Errorf("they are not; the holds are %+v", all)
	})
	return found
}

// AllowDeletes allows held deletes as an operator does, by annotation. The module gets through when it next asks; a
// supervised reconciler within 40 seconds.
func (h *Hub) AllowDeletes(hold deletes.Hold, objects int) {
	h.tb.Helper()
	var object client.Object = &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: hold.Cluster}}
	if hold.Fleet || hold.Cluster == "" {
		object = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: h.site.process.credentialsNamespace(), Name: cluster.HoldsName,
		}}
	}
	ctx := h.tb.Context()
	err := h.Client().Get(ctx, client.ObjectKeyFromObject(object), object)
	if err == nil {
		before, _ := object.DeepCopyObject().(client.Object)
		allowed := fmt.Sprintf("%s=%d", hold.ID, objects)
		if others := object.GetAnnotations()[hubv1.AnnotationAllowDeletes]; others != "" {
			allowed = others + "," + allowed
		}
		object.SetAnnotations(labels.Merge(object.GetAnnotations(), map[string]string{hubv1.AnnotationAllowDeletes: allowed}))
		err = h.Client().Patch(ctx, object, client.MergeFrom(before))
	}
	h.must(err, "allow the deletes of %s", hold.ID)
}
