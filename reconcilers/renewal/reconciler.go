// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// FieldManager is for changes to Secrets, and the reporting controller of events.
const FieldManager = "clusterfx-renewal"

const tokenKey = corev1.ServiceAccountTokenKey

// errChanged is no conflict of the remote, which is retried.
var errChanged = errors.New("the Secret has changed since it was read")

type reconciler struct {
	hub       client.Client // reads Clusters from the cache
	cache     client.Reader // has metadata of Secrets
	live      client.Reader
	remotes   *registry.Registry
	events    events.EventRecorder
	namespace string
	writes    writeLimit
	users     hubcontroller.Index
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	metadata := hubcontroller.SecretMetadata()
	err := r.cache.Get(ctx, request.NamespacedName, metadata)
	if err == nil && (!isRenewed(metadata) || r.isElsewhere(request.Name)) {
		return ctrl.Result{}, nil // The event of a remote that is Ready here triggers a reconcile.
	}
	result, err := r.reconcile(ctx, request.NamespacedName, err)
	if metadata.Annotations[hubv1.AnnotationRehearsal] == "" {
		return result, err
	}
	other, failed := r.reconcile(ctx, client.ObjectKey{Namespace: hubv1.RehearsalNamespace, Name: request.Name}, nil)
	if result.RequeueAfter == 0 || other.RequeueAfter > 0 && other.RequeueAfter < result.RequeueAfter {
		result = other
	}
	return result, errors.Join(err, failed)
}

// reconcile renews the token of a Secret; err is that of the read of its metadata.
func (r *reconciler) reconcile(ctx context.Context, key client.ObjectKey, err error) (ctrl.Result, error) {
	var secret corev1.Secret
	if err == nil {
		err = r.live.Get(ctx, key, &secret)
	}
	if apierrors.IsNotFound(err) {
		r.writes.forget(key)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read the Secret: %w", err)
	}
	if !isRenewed(&secret) || !secret.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	cluster, err := r.clusterOf(ctx, secret.Name)
	if err != nil || cluster == nil || r.isElsewhere(secret.Name) { // The Cluster may be new since the Secret was read.
		return ctrl.Result{}, err // A Cluster that appears and becomes Ready triggers a reconcile.
	}
	old, err := lifeOf(secret.Data[tokenKey])
	if err != nil {
		r.tell(cluster, corev1.EventTypeWarning, "RenewalFailed", fmt.Sprintf("Secret %s: %v; the key %s must hold one", secret.Name, err, tokenKey))
		return ctrl.Result{}, nil // A change of the Secret triggers a reconcile.
	}
	next, wait := r.planOf(&secret, old, time.Now())
	if wait > 0 {
		return after(wait), nil
	}
	renewed, err := r.renew(ctx, cluster, &secret, next)
	switch {
	case errors.Is(err, registry.ErrNotReady), errors.Is(err, registry.ErrNotFound), errors.Is(err, registry.ErrElsewhere),
		errors.Is(err, errChanged):
		return ctrl.Result{}, nil // The return of the remote, or the change of the Secret, triggers a reconcile.
	case err != nil:
		r.tellFailure(cluster, old, err)
		return ctrl.Result{}, err
	}
	expires := renewed.ExpirationTime.UTC().Format(time.RFC3339)
	log.FromContext(ctx).Info("Token renewed", "cluster", cluster.Name, "expires", expires)
	r.tell(cluster, corev1.EventTypeNormal, "TokenRenewed", "The token was renewed; it expires at "+expires)
	return after(time.Until(renewed.plan().due)), nil
}

// isElsewhere: Clusters name the Secret, and this hub has the remote of none. Another replica may.
func (r *reconciler) isElsewhere(secret string) bool {
	all := r.users.Of(secret)
	return len(all) > 0 && !slices.ContainsFunc(all, func(name string) bool {
		_, known := r.remotes.Status(registry.ClusterName(name))
		return known
	})
}

func (r *reconciler) planOf(secret *corev1.Secret, old life, now time.Time) (plan, time.Duration) {
	recorded, isBad := recordOf(secret, now)
	next := old.first(now)
	if recorded.isOf(old) {
		next = recorded.plan()
	}
	next.old = old
	return next, max(next.due.Sub(now), r.writes.wait(client.ObjectKeyFromObject(secret), recorded, isBad, now))
}

// after waits an hour at most: a timer does not notice that the clock is set, or that the machine sleeps.
func after(wait time.Duration) ctrl.Result {
	return ctrl.Result{RequeueAfter: min(max(wait, time.Second), time.Hour)}
}

// tellFailure repeats no text of the remote.
func (r *reconciler) tellFailure(cluster *hubv1.Cluster, old life, err error) {
	expires := old.expires.UTC().Format(time.RFC3339)
	if refused := (*refusal)(nil); errors.As(err, &refused) {
		r.tell(cluster, corev1.EventTypeWarning, "TokenRefused",
			fmt.Sprintf("The new token of the remote was refused; the old token stays and expires at %s: %s", expires, refused.why))
		return
	}
	r.tell(cluster, corev1.EventTypeWarning, "RenewalFailed", fmt.Sprintf("The token, which expires at %s, could not be renewed: %v", expires, err))
}

func (r *reconciler) clusterOf(ctx context.Context, secret string) (*hubv1.Cluster, error) {
	var found *hubv1.Cluster
	for _, name := range r.users.Of(secret) {
		one := &hubv1.Cluster{}
		err := r.hub.Get(ctx, client.ObjectKey{Name: name}, one)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read the Cluster %s: %w", name, err)
		}
		if err != nil || one.Spec.KubeconfigSecretRef.Name != secret {
			continue
		}
		if info, _ := r.remotes.Status(registry.ClusterName(name)); found == nil || info.State == state.StateReady {
			found = one
		}
	}
	return found, nil
}

func (r *reconciler) renew(ctx context.Context, cluster *hubv1.Cluster, secret *corev1.Secret, next plan) (record, error) {
	token, granted, err := r.request(ctx, cluster, secret, secondsOf(next.lifetime))
	if err != nil {
		return record{}, err
	}
	now := time.Now()
	renewed, err := next.judge(token, granted, now)
	if err != nil {
		return record{}, err
	}
	before := secret.DeepCopy()
	secret.Data[tokenKey] = []byte(token)
	if err := isReadable(secret, cluster); err != nil {
		return record{}, err
	}
	wrote := newRecord(renewed, next.lifetime, granted, now)
	if err := wrote.write(secret); err != nil {
		return record{}, fmt.Errorf("record the renewal: %w", err)
	}
	lock := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.hub.Patch(ctx, secret, lock, client.FieldOwner(FieldManager)); apierrors.IsConflict(err) {
		return record{}, errChanged
	} else if err != nil {
		return record{}, fmt.Errorf("write Secret %s: %w", secret.Name, err)
	}
	r.writes.wrote(client.ObjectKeyFromObject(secret), now)
	return wrote, nil
}

func (r *reconciler) request(
	ctx context.Context, cluster *hubv1.Cluster, secret *corev1.Secret, seconds int64,
) (string, time.Duration, error) {
	account, err := accountOf(secret)
	if err != nil {
		return "", 0, err
	}
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds, BoundObjectRef: boundTo(secret),
	}}
	err = r.remotes.WithClient(ctx, registry.ClusterName(cluster.Name), func(ctx context.Context, remote client.Client) error {
		return remote.SubResource("token").Create(ctx, account, token)
	})
	if err != nil {
		return "", 0, fmt.Errorf("request a token of ServiceAccount %s/%s, which needs the permission to create serviceaccounts/token: %w",
			account.Namespace, account.Name, err)
	}
	var granted int64
	if stated := token.Spec.ExpirationSeconds; stated != nil {
		granted = min(max(*stated, 0), secondsOf(longest))
	}
	return token.Status.Token, time.Duration(granted) * time.Second, nil
}

// isReadable refuses a token that makes the Secret too large to be read.
func isReadable(secret *corev1.Secret, cluster *hubv1.Cluster) error {
	_, err := kubeconfig.Parse(secret.Data, kubeconfig.Options{
		Key: cluster.Spec.KubeconfigSecretRef.Key, Server: cluster.Spec.Server,
	}, kubeconfig.Policy{})
	if wrong := (*kubeconfig.Error)(nil); errors.As(err, &wrong) && wrong.Reason == kubeconfig.ReasonTooLarge {
		return refuse("with it the Secret would be larger than the hub accepts")
	}
	return nil // Other errors of the Secret existed before.
}

func boundTo(secret *corev1.Secret) *authenticationv1.BoundObjectReference {
	name := secret.Annotations[hubv1.AnnotationTokenSecret]
	if name == "" {
		return nil
	}
	return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: name}
}

func accountOf(secret *corev1.Secret) (*corev1.ServiceAccount, error) {
	namespace, name, found := strings.Cut(secret.Annotations[hubv1.AnnotationRenewToken], "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return nil, errors.New("the annotation " + hubv1.AnnotationRenewToken + " must name a ServiceAccount as namespace/name")
	}
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = namespace, name
	return account, nil
}

func (r *reconciler) tell(cluster *hubv1.Cluster, kind, reason, note string) {
	r.events.Eventf(object.InAnyVersion(r.hub.Scheme(), cluster, ""), nil, kind, reason, "Renew",
		"%s", object.Shortened(note, object.MaxNote))
}
