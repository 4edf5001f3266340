// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/internal/tunnel"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Rotation renews the credential of a Cluster.
type Rotation struct {
	Place
	// An empty Token keeps the present kind.
	Token    TokenKind
	Lifetime time.Duration

	hubID   string
	cluster hubv1.Cluster
	record  *record
}

var errNotUsed = fmt.Errorf("%w: the hub does not report that it uses the new token. Does the hub run? The old token is still valid; "+
	"run the same command again", ErrNotReady)

// Prepare checks whether the credential can be renewed, and changes nothing.
func (r *Rotation) Prepare(ctx context.Context) (err error) {
	if r.hubID, err = r.Hub.ID(ctx); err != nil {
		return err
	}
	if err := r.Hub.Get(ctx, client.ObjectKey{Name: r.Name}, &r.cluster); err != nil {
		return r.Hub.Explain(err)
	}
	key := client.ObjectKey{Namespace: r.Namespace, Name: r.cluster.Spec.KubeconfigSecretRef.Name}
	if r.record, err = readRecord(ctx, r.Hub, key); err != nil {
		return err
	}
	if r.record == nil || !MadeByRegister(&r.record.secret, r.hubID, r.Name) {
		return fmt.Errorf("the credentials of Cluster %s were not made by register: put new ones into Secret %s, the hub takes them at once",
			r.Name, key)
	}
	id, err := r.Remote.ID(ctx)
	if err != nil {
		return err
	}
	return sameCluster(&r.cluster, r.Remote.What, id)
}

// RequireRights returns an error that names the missing permissions of the user, in the hub or in the remote.
func (r *Rotation) RequireRights(ctx context.Context) error {
	return errors.Join(r.Hub.Require(ctx, hubRights(r.Namespace, verbGet, verbUpdate)),
		r.Remote.Require(ctx, r.record.account.tokenRights()))
}

// Run mints a token, swaps the Secret, waits until the hub uses it and revokes every other token of the account. Until
// then the old one stays valid.
func (r *Rotation) Run(ctx context.Context) error {
	kind, err := r.kind(ctx)
	if err != nil {
		return err
	}
	a := r.record.account
	if a.Renews = kind == Requested; a.Renews {
		if err := a.makeRenewal(ctx, r.Remote); err != nil {
			return err
		}
	}
	made, err := a.mint(ctx, r.Remote, kind, r.Lifetime)
	if err != nil {
		return err
	}
	r.Terminal.Done("the remote has issued and accepted a new token%s", ending(made))
	secret := r.record.secret.DeepCopy()
	a.put(secret, made)
	if err := r.Hub.Update(ctx, secret, fieldOwner); err != nil {
		return r.Hub.Failed("update "+nameOf(secret), err)
	}
	r.Terminal.Done("it is in %s of the hub", nameOf(secret))
	if err := r.waitUsed(ctx, secret); err != nil {
		return err
	}
	revoked, err := a.revoke(ctx, r.Remote, made.anchor)
	for _, one := range revoked {
		r.Terminal.Done("the old token is revoked: %s is deleted in the remote", one)
	}
	if namespace := secret.Annotations[annotationAgent]; err == nil && namespace != "" {
		err = r.rotateAgent(ctx, &Agent{Namespace: namespace})
	}
	return err
}

var errOldKey = fmt.Errorf("%w: the agent does not use its new key yet; a kubelet takes up to two minutes to bring it. Both keys are accepted; "+
	"run the same command again", ErrNotReady)

// rotateAgent has both keys accepted until the agent uses the new one. After an interruption it continues with the key in the remote.
func (r *Rotation) rotateAgent(ctx context.Context, a *Agent) error {
	if err := a.checkOwner(ctx, r.Remote, r.record.account.Owner); err != nil {
		return err
	}
	current, err := a.keyIn(ctx, r.Remote, r.record.account.Owner)
	if err != nil {
		return err
	}
	next, inUse := current, r.cluster.Status.Tunnel.KeyFingerprint
	if inUse == current || inUse == "" {
		key, err := tunnel.NewKey()
		if err != nil {
			return err
		}
		next = key.Fingerprint()
		if err := r.acceptKeys(ctx, &r.cluster, current, next); err != nil {
			return err
		}
		if err := a.replaceKey(ctx, r.Remote, key); err != nil {
			return err
		}
		r.Terminal.Done("the agent has a new key, and the hub accepts both")
	}
	waiting, cancel := context.WithTimeoutCause(ctx, max(r.Timeout, agentPatience), errOldKey)
	defer cancel()
	err = access.Poll(waiting, pollPeriod, func() (bool, error) {
		var now hubv1.Cluster
		err := r.Hub.Get(waiting, client.ObjectKey{Name: r.Name}, &now)
		return now.Status.Tunnel.KeyFingerprint == next, r.Hub.Explain(err)
	})
	if err != nil {
		return err
	}
	r.Terminal.Done("the agent uses the new key, and the hub accepts no other")
	return r.acceptKeys(ctx, &r.cluster, next)
}

// agentPatience is for a kubelet that brings a new key into a Pod.
const agentPatience = 3 * time.Minute

func (r *Rotation) kind(ctx context.Context) (TokenKind, error) {
	if r.Token != "" {
		return r.Token, nil
	}
	var anchor corev1.Secret
	key := client.ObjectKey{Namespace: r.record.account.Namespace, Name: r.record.secret.Annotations[annotationAnchor]}
	err := client.IgnoreNotFound(r.Remote.Get(ctx, key, &anchor))
	if anchor.Type == corev1.SecretTypeServiceAccountToken {
		return Lasting, nil
	}
	return Requested, r.Remote.Failed("read Secret "+key.String(), err)
}

// waitUsed returns when the hub reports the new fingerprint, and that the remote responds.
func (r *Rotation) waitUsed(ctx context.Context, secret *corev1.Secret) error {
	connection, err := kubeconfig.Parse(secret.Data, cluster.OptionsOf(&r.cluster), lenient())
	if err != nil {
		return fmt.Errorf("read %s: %w", nameOf(secret), err)
	}
	wanted := connection.Credential.Fingerprint([]byte(r.hubID))
	begin := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, errNotUsed)
	defer cancel()
	err = access.Poll(ctx, pollPeriod, func() (bool, error) { return uses(ctx, r.Hub, r.Name, wanted) })
	if err == nil {
		r.Terminal.Done("the hub uses it after %s", time.Since(begin).Round(100*time.Millisecond))
	}
	return err
}

func uses(ctx context.Context, hub *access.Cluster, name, wanted string) (bool, error) {
	var cluster hubv1.Cluster
	if err := hub.Get(ctx, client.ObjectKey{Name: name}, &cluster); err != nil {
		return false, hub.Explain(err)
	}
	reachable := meta.FindStatusCondition(cluster.Status.Conditions, hubv1.ConditionReachable)
	works := reachable != nil && (reachable.Status == metav1.ConditionTrue || reachable.Reason == hubv1.ReasonPaused)
	return works && cluster.Status.Credentials.Fingerprint == wanted, nil
}
