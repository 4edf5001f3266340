// SPDX-License-Identifier: Apache-2.0

package renewal_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// Promise: the hub renews the token of rehearsals too, in their own namespace.
func TestRenewal_Rehearsal(t *testing.T) {
	t.Parallel()
	hub, namespace := newHub(t)
	name := namespace + "-h"
	other := name + "-rehearsal"
	own := register(t, hub, namespace, name, mayRenew(name), mayRenew(other))
	must(t, client.IgnoreAlreadyExists(hub.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubv1.RehearsalNamespace}})))
	minted, err := fleettest.Cluster(t, "one").MintToken(t.Context(), fleet.User{Name: other, Lifetime: 12 * time.Second})
	must(t, err)
	before := own.DeepCopy()
	before.ObjectMeta = metav1.ObjectMeta{
		Name: name, Namespace: hubv1.RehearsalNamespace, Annotations: map[string]string{hubv1.AnnotationRenewToken: "kube-system/" + other},
	}
	before.Data["token"] = []byte(minted.Config().BearerToken)
	must(t, hub.Create(t.Context(), before))
	own.SetResourceVersion("")
	must(t, hub.Patch(t.Context(), own, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+hubv1.AnnotationRehearsal+`":"true"}}}`))))
	eventually(t, func() error {
		var after corev1.Secret
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(before), &after); err != nil {
			return err
		}
		if bytes.Equal(after.Data["token"], before.Data["token"]) {
			return errors.New("the Secret of rehearsals has its old token")
		}
		return nil
	})
}
