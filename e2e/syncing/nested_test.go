// SPDX-License-Identifier: Apache-2.0

package syncing_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// nestedTenants are two pairs, of which the second one copies the copies of the first one, back into the first cluster.
func nestedTenants(t *testing.T, all []*fleet.Cluster) {
	t.Helper()
	t.Parallel()
	outer := newWorldOf(t, all, setting{
		namespaces: []string{"na"}, target: "nb", oneToOne: true, identity: syncer.Identity{Tenant: "outer"},
	})
	inner := newWorldOf(t, []*fleet.Cluster{all[below], all[above]}, setting{
		namespaces: []string{"nb"}, target: "nc", oneToOne: true, identity: syncer.Identity{Tenant: "inner"},
	})
	p, q := outer.begin(t, moment{}), inner.begin(t, moment{})
	up := outer.original(0, "a")
	up.Labels = map[string]string{"app": "nested"}
	must(t, outer.people[above].Create(t.Context(), up.DeepCopy()))
	last := func(k string) func() error {
		return func() error {
			var found corev1.ConfigMapList
			err := inner.people[below].List(t.Context(), &found, client.InNamespace("nc"), client.MatchingLabels{"app": "nested"})
			if err == nil && (len(found.Items) != 1 || found.Items[0].Data["k"] != k) {
				err = fmt.Errorf("the last copies are %v, want one with k=%s", found.Items, k)
			}
			return errors.Join(err, outer.check(), inner.check())
		}
	}
	eventually(t, last("1"))
	must(t, outer.people[above].Patch(t.Context(), up.DeepCopy(), merge(`{"data":{"k":"2"}}`)))
	eventually(t, last("2"))
	// The copy in the middle is deleted, and so made again, and with it the last one.
	must(t, outer.people[below].Delete(t.Context(), outer.onlyCopy(up)))
	eventually(t, last("2"))
	must(t, outer.people[above].Delete(t.Context(), up.DeepCopy()))
	eventually(t, func() error {
		s, err := inner.read()
		if err == nil && len(s.ups)+len(s.downs) > 0 {
			err = fmt.Errorf("%d objects are left in the middle, and %d at the end", len(s.ups), len(s.downs))
		}
		return errors.Join(err, outer.check(), inner.check())
	})
	p.kill()
	q.kill()
	outer.checkWrites()
	inner.checkWrites()
}

func (w *world) onlyCopy(up *corev1.ConfigMap) *corev1.ConfigMap {
	w.t.Helper()
	s, err := w.read()
	must(w.t, err)
	copies := s.copies[client.ObjectKeyFromObject(up)]
	if len(copies) != 1 {
		w.t.Fatalf("%s has %d copies, want one", up.Name, len(copies))
	}
	return copies[0]
}
