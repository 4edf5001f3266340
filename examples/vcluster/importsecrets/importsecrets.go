// SPDX-License-Identifier: Apache-2.0

package importsecrets

import (
	"context"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// To is the annotation of a downstream Secret that names its upstream Secret, as namespace/name.
const To = "import.example.com/to"

// imports makes upstream Secrets.
type imports struct{ id syncer.Identity }

// Item imports the Secrets in Identity.TargetNamespace of the downstream cluster that have the annotation To.
func Item(id syncer.Identity) syncer.Item {
	return syncer.Of(&imports{id: id}, syncer.NewNamespaced[*corev1.Secret](id, syncer.TranslatorOptions{}),
		syncer.Options[*corev1.Secret]{Select: func(*corev1.Secret) bool { return false }}) // Nothing goes down.
}

func (i *imports) Name() string { return "import-secrets" }

func (i *imports) UpstreamName(down *corev1.Secret) (types.NamespacedName, bool) {
	namespace, name, ok := strings.Cut(down.Annotations[To], "/")
	ok = ok && down.Namespace == i.id.TargetNamespace && down.Labels[i.id.Keys().ManagedBy] == "" &&
		len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
	return types.NamespacedName{Namespace: namespace, Name: name}, ok
}

// SyncDown is not called, because no upstream object is selected.
func (i *imports) SyncDown(context.Context, syncer.Down[*corev1.Secret]) (reconcile.Result, error) {
	return reconcile.Result{}, nil
}

// SyncUp creates the upstream Secret, and its Namespace.
func (i *imports) SyncUp(ctx context.Context, e syncer.Up[*corev1.Secret]) (reconcile.Result, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Key().Namespace}}
	if err := e.UpstreamAccess().Client.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
		return reconcile.Result{}, err
	}
	made := &corev1.Secret{Type: e.Downstream.Type}
	i.fill(made, e.Downstream)
	return reconcile.Result{}, e.CreateUpstream(ctx, made)
}

// Sync brings the upstream Secret up to date. The API server refuses a change of the type and of an immutable Secret: then the
// Secret is deleted, and made again.
func (i *imports) Sync(ctx context.Context, e syncer.Both[*corev1.Secret]) (reconcile.Result, error) {
	now := e.Upstream.DeepCopy()
	i.fill(e.Upstream, e.Downstream)
	switch immutable := now.Immutable != nil && *now.Immutable; {
	case now.Type != e.Downstream.Type, immutable && !equality.Semantic.DeepEqual(now.Data, e.Upstream.Data):
		exactly := client.Preconditions{UID: &now.UID, ResourceVersion: &now.ResourceVersion}
		return reconcile.Result{}, client.IgnoreNotFound(e.UpstreamAccess().Client.Delete(ctx, now, exactly))
	case equality.Semantic.DeepEqual(now, e.Upstream):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, e.UpdateUpstream(ctx, e.Upstream)
}

// fill copies the content of a downstream Secret. The mark of the pair stays.
func (i *imports) fill(up, down *corev1.Secret) {
	mark := i.id.Keys().Imported
	imported, ok := up.Annotations[mark]
	up.Labels, up.Annotations = maps.Clone(down.Labels), maps.Clone(down.Annotations)
	maps.DeleteFunc(up.Annotations, func(key, _ string) bool { return key == To || key == corev1.LastAppliedConfigAnnotation })
	if ok {
		metav1.SetMetaDataAnnotation(&up.ObjectMeta, mark, imported)
	}
	up.Data, up.Immutable = down.Data, down.Immutable
}
