// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

type credentials struct {
	clusterstatus.Credentials
	version    string                // version is the resourceVersion of the Secret.
	connection kubeconfig.Connection // connection is set only if the Secret was parsed.
	changes    time.Time             // changes is when the result changes although the Secret does not; zero for never.
}

// changesIn is zero for never, and at most an hour: a timer does not notice that a clock was set or a machine slept.
func (c credentials) changesIn(now time.Time) time.Duration {
	if c.changes.IsZero() {
		return 0
	}
	return min(max(c.changes.Sub(now), time.Millisecond), time.Hour)
}

func (c credentials) lookAgain(at time.Time) credentials {
	if !at.IsZero() && (c.changes.IsZero() || at.Before(c.changes)) {
		c.changes = at
	}
	return c
}

const expiryWarning = 7 * 24 * time.Hour // expiryWarning is how long before their end long-lived credentials should be renewed.

// expiryShare is the divisor of a shorter life: this hub and cert-manager renew after two thirds, kubelets after 80 %.
const expiryShare = 6

// Messages of CredentialsValid. Other messages are those of kubeconfig, which never contain data of the Secret.
const (
	messageNotFound = "Secret %s does not exist; create it, or fix spec.kubeconfigSecretRef.name"
	messageRefused  = "Secret %s is not accepted: %s"
	messageValid    = "The credentials are acceptable"
	messageExpired  = "The credentials expired at %s; put new ones into Secret %s"
	messageExpiring = "The credentials expire at %s; put new ones into Secret %s before that"
	messageNotInUse = "The credentials in Secret %s are not in use, the last good credentials are: %s " +
		"The hub retries them. To use them anyway, set the annotation " + hubv1.AnnotationAcceptCredentials + "=%s"
	messageDemand   = "; to use them anyway, set the annotation " + hubv1.AnnotationAcceptCredentials + "=%s"
	messageDemanded = "; the annotation " + hubv1.AnnotationAcceptCredentials + " requires the hub to use them"
)

func (r *reconciler) secretOf(cluster *hubv1.Cluster) client.ObjectKey {
	return client.ObjectKey{Namespace: r.settings.Namespace, Name: cluster.Spec.KubeconfigSecretRef.Name}
}

// readCredentials returns an error only if the Secret could not be read; info says whether the remote accepts those read last.
func (r *reconciler) readCredentials(ctx context.Context, cluster *hubv1.Cluster, info registry.Status) (credentials, error) {
	key := r.secretOf(cluster)
	q := question{from: origin{cluster.UID, cluster.Generation}, version: r.cachedVersion(ctx, key), now: time.Now()}
	q.accepted = info.Reachable.Status == metav1.ConditionTrue
	q.rejected = info.Reachable.Reason == hubv1.ReasonUnauthorized
	s := r.memory.of(cluster.Name)
	known, later, ok := s.recall(q)
	if !ok {
		var err error
		if known, err = r.readSecret(ctx, key, cluster); err != nil {
			return credentials{}, err
		}
		s.remember(q, known)
	}
	return r.assess(known, key, q.now).accepting(cluster).lookAgain(later), nil
}

func (r *reconciler) readSecret(ctx context.Context, key client.ObjectKey, cluster *hubv1.Cluster) (reading, error) {
	var secret corev1.Secret
	err := r.secrets.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) {
		return reading{refusal: refused(hubv1.ReasonSecretNotFound, fmt.Sprintf(messageNotFound, key)).Valid}, nil
	}
	if err != nil {
		return reading{}, fmt.Errorf("read Secret %s: %w", key, err)
	}
	return r.parse(&secret, cluster), nil
}

func (r *reconciler) parse(secret *corev1.Secret, cluster *hubv1.Cluster) reading {
	options := OptionsOf(cluster)
	// Expiry depends on the time of each reconcile, not of this read; see judge.
	options.Now = func() time.Time { return time.Time{} }
	connection, err := kubeconfig.Parse(secret.Data, options, r.settings.Policy)
	if err != nil {
		refusal := refused(reasonOf(err), fmt.Sprintf(messageRefused, client.ObjectKeyFromObject(secret), err)).Valid
		return reading{refusal: refusal, version: secret.ResourceVersion}
	}
	return reading{connection: connection, version: secret.ResourceVersion}
}

func (r *reconciler) assess(of reading, secret client.ObjectKey, now time.Time) credentials {
	if of.refusal != (state.Condition{}) {
		return credentials{Credentials: clusterstatus.Credentials{Valid: of.refusal}, version: of.version}
	}
	life := of.connection.Credential
	found := judge(life.Expires(), warningOf(life.Issued(), life.Expires()), now, secret)
	found.connection, found.version = of.connection, of.version
	found.Reported = describe(of.connection.Credential, r.settings.HubID)
	return found
}

// accepting accepts expired credentials if the operator demands it: the hub's clock may be wrong, and the remote decides.
func (c credentials) accepting(cluster *hubv1.Cluster) credentials {
	if c.Valid.Reason != hubv1.ReasonExpired {
		return c
	}
	if accepts(cluster, c.Reported.Fingerprint) {
		c.Valid.Status, c.Valid.Message = metav1.ConditionTrue, c.Valid.Message+messageDemanded
	} else {
		c.Valid.Message += fmt.Sprintf(messageDemand, c.Reported.Fingerprint)
	}
	return c
}

func accepts(cluster *hubv1.Cluster, fingerprint string) bool {
	return fingerprint != "" && cluster.Annotations[hubv1.AnnotationAcceptCredentials] == fingerprint
}

func reasonOf(err error) string {
	if refusal, ok := errors.AsType[*kubeconfig.Error](err); ok {
		return string(refusal.Reason)
	}
	return hubv1.ReasonInvalidKubeconfig
}

// judge returns valid, expiring soon (from warn on) or expired, and when that changes.
func judge(expires, warn, now time.Time, secret client.ObjectKey) credentials {
	end := expires.UTC().Format(time.RFC3339)
	switch {
	case expires.IsZero():
		return accepted(hubv1.ReasonValid, messageValid, time.Time{})
	case !now.Before(expires): // The clock may be set back.
		return refused(hubv1.ReasonExpired, fmt.Sprintf(messageExpired, end, secret)).lookAgain(now.Add(time.Hour))
	case !now.Before(warn):
		return accepted(hubv1.ReasonExpiringSoon, fmt.Sprintf(messageExpiring, end, secret), expires)
	}
	return accepted(hubv1.ReasonValid, messageValid, warn)
}

func warningOf(issued, expires time.Time) time.Time {
	before := expiryWarning
	if life := expires.Sub(issued); !issued.IsZero() && life > 0 {
		before = min(before, life/expiryShare)
	}
	return expires.Add(-before)
}

func accepted(reason, message string, until time.Time) credentials {
	return credentials{
		Credentials: clusterstatus.Credentials{Valid: state.Condition{Status: metav1.ConditionTrue, Reason: reason, Message: message}},
		changes:     until,
	}
}

func refused(reason, message string) credentials {
	return credentials{Credentials: clusterstatus.Credentials{Valid: state.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}}}
}

func describe(c kubeconfig.Credential, hubID string) hubv1.CredentialsStatus {
	status := hubv1.CredentialsStatus{
		Type:        hubv1.CredentialType(c.Type()),
		Fingerprint: c.Fingerprint([]byte(hubID)),
	}
	if expires := c.Expires(); !expires.IsZero() {
		status.ExpirationTime = metav1.NewTime(expires)
	}
	return status
}
