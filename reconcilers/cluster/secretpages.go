// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry"
)

const (
	secretsInPage = 100 // secretsInPage is how many Secrets one request reads.
	// worthPages Clusters are worth pages, with up to strangers Secrets of others for each of theirs.
	worthPages, strangers = 10, 3
	pagesTimeout          = 10 * time.Second // pagesTimeout bounds all pages; what is not read by then is read by the reconciles.
)

// readSecrets reads a hundred per request when a hub starts, and keeps what reconciles would; the rest is dropped. It returns no
// error: a reconcile reads what is missing or changed.
func (r *reconciler) readSecrets(ctx context.Context, all []hubv1.Cluster) {
	ctx, cancel := context.WithTimeout(ctx, pagesTimeout)
	defer cancel()
	wanted := r.usersOf(all)
	if len(wanted) < worthPages || r.countSecrets(ctx) > (1+strangers)*len(wanted) {
		return
	}
	workers := errgroup.Group{}
	workers.SetLimit(runtime.GOMAXPROCS(0))
	defer func() { _ = workers.Wait() }() // They return no errors.
	for next := ""; ; {
		var page corev1.SecretList
		err := r.secrets.List(ctx, &page, client.InNamespace(r.settings.Namespace), client.Limit(secretsInPage), client.Continue(next))
		if err != nil {
			log.FromContext(ctx).Error(err, "Failed to read the Secrets in pages; each one is read by itself")
			return
		}
		for i := range page.Items {
			secret := &page.Items[i]
			if users := wanted[secret.Name]; len(users) > 0 {
				workers.Go(func() error { r.rememberSecret(ctx, secret, users); return nil })
			}
		}
		if next = page.Continue; next == "" {
			return
		}
	}
}

func (r *reconciler) usersOf(all []hubv1.Cluster) map[string][]*hubv1.Cluster {
	users := map[string][]*hubv1.Cluster{}
	for i := range all {
		one := &all[i]
		role, _ := r.share.RoleOf(registry.ClusterName(one.Name), one.UID)
		if role == RoleRunner && one.DeletionTimestamp.IsZero() && !clusterstatus.IsPaused(one) {
			name := one.Spec.KubeconfigSecretRef.Name
			users[name] = append(users[name], one)
		}
	}
	return users
}

func (r *reconciler) countSecrets(ctx context.Context) int {
	var all metav1.PartialObjectMetadataList
	all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return 0 // The cache is ending.
	}
	return len(all.Items)
}

func (r *reconciler) rememberSecret(ctx context.Context, secret *corev1.Secret, users []*hubv1.Cluster) {
	key := client.ObjectKeyFromObject(secret)
	for _, cluster := range users {
		q := question{from: originOf(cluster), version: r.cachedVersion(ctx, key), now: time.Now()}
		r.memory.remember(r.memory.of(cluster.Name), q, r.parse(secret, q.from))
	}
}
