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
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// credentials are what a Cluster's Secret comes to.
type credentials struct {
	// valid is the condition CredentialsValid.
	valid registry.Facet
	// connection, status and version, that of the Secret, are set only if the Secret is good.
	connection kubeconfig.Connection
	status     hubv1.CredentialsStatus
	version    string
	// changes is when valid changes though nobody changes the Secret; zero for never.
	changes time.Time
}

func (c credentials) usable() bool { return c.valid.Status == metav1.ConditionTrue }

// changesIn returns the time until valid changes by itself, or zero if it never does.
func (c credentials) changesIn(now time.Time) time.Duration {
	if c.changes.IsZero() {
		return 0
	}
	return max(c.changes.Sub(now), time.Millisecond)
}

// expiryWarning is how long before their end credentials should be renewed.
const expiryWarning = 7 * 24 * time.Hour

// Messages of CredentialsValid. Others come from kubeconfig, which does not repeat what it reads.
const (
	messageNotFound = "Secret %s does not exist; create it, or mend spec.kubeconfigSecretRef.name"
	messageRefused  = "Secret %s is not accepted: %s"
	messageValid    = "The credentials are acceptable"
	messageExpired  = "The credentials expired at %s; put new ones into Secret %s"
	messageExpiring = "The credentials expire at %s; put new ones into Secret %s before that"
)

// readCredentials reads and judges the Secret that the Cluster names. An error means that the
// Secret could not be read; whatever is wrong with the Secret is in the result.
func (r *reconciler) readCredentials(ctx context.Context, cluster *hubv1.Cluster) (credentials, error) {
	key := client.ObjectKey{Namespace: r.settings.Namespace, Name: cluster.Spec.KubeconfigSecretRef.Name}
	from := originOf(&cluster.Spec)
	known, same := r.memory.recall(cluster.Name, from, r.cachedVersion(ctx, key))
	if same && !r.rejected(cluster.Name) {
		return r.assess(known, key), nil
	}
	var secret corev1.Secret
	err := r.secrets.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) {
		return refused(hubv1.ReasonSecretNotFound, fmt.Sprintf(messageNotFound, key)), nil
	}
	if err != nil {
		return credentials{}, fmt.Errorf("read Secret %s: %w", key, err)
	}
	connection, err := kubeconfig.Parse(secret.Data, from.options(), r.settings.Policy)
	if err != nil {
		return refused(reasonOf(err), fmt.Sprintf(messageRefused, key, err)), nil
	}
	parsed := versioned{connection, secret.ResourceVersion}
	r.memory.remember(cluster.Name, from, parsed)
	return r.assess(parsed, key), nil
}

// rejected reports whether the remote does not accept the credentials. Then newer ones may be in
// the Secret that no watch has told of yet.
func (r *reconciler) rejected(name string) bool {
	info, _ := r.remotes.Info(registry.ClusterName(name))
	return info.Reachable.Reason == hubv1.ReasonUnauthorized
}

// assess says what a connection is worth now.
func (r *reconciler) assess(c versioned, secret client.ObjectKey) credentials {
	found := judge(c.Credential.Expires(), time.Now(), secret)
	found.connection = c.Connection
	found.version = c.version
	found.status = describe(c.Credential, r.settings.HubID)
	return found
}

func reasonOf(err error) string {
	var refusal *kubeconfig.Error
	if errors.As(err, &refusal) {
		return string(refusal.Reason)
	}
	return hubv1.ReasonInvalidKubeconfig
}

// judge says what the time of their end makes of good credentials, and when that changes.
func judge(expires, now time.Time, secret client.ObjectKey) credentials {
	end := expires.UTC().Format(time.RFC3339)
	warn := expires.Add(-expiryWarning)
	switch {
	case expires.IsZero():
		return accepted(hubv1.ReasonValid, messageValid, time.Time{})
	case !now.Before(expires):
		return refused(hubv1.ReasonExpired, fmt.Sprintf(messageExpired, end, secret))
	case !now.Before(warn):
		return accepted(hubv1.ReasonExpiringSoon, fmt.Sprintf(messageExpiring, end, secret), expires)
	}
	return accepted(hubv1.ReasonValid, messageValid, warn)
}

func accepted(reason, message string, until time.Time) credentials {
	return credentials{
		valid:   registry.Facet{Status: metav1.ConditionTrue, Reason: reason, Message: message},
		changes: until,
	}
}

func refused(reason, message string) credentials {
	return credentials{valid: registry.Facet{Status: metav1.ConditionFalse, Reason: reason, Message: message}}
}

// describe says of a credential what may be known of it.
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
