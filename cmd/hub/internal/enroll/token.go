// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// TokenKind is a way of getting a token.
type TokenKind string

const pollPeriod = 200 * time.Millisecond

const (
	// Requested tokens expire.
	Requested TokenKind = "request"
	// Lasting tokens are in a Secret of the remote, and valid while that exists.
	Lasting TokenKind = "secret"
)

// token is valid while its anchor, a Secret, exists.
type token struct {
	value, anchor string
	expires       time.Time // zero for never
}

// tokenPatience is for filling a token Secret, and for accepting a new token.
const tokenPatience = 30 * time.Second

var errNotFilled = errors.New("the remote has put no token into the Secret: does its controller manager run, which does that? " +
	"Or request a token with --token-type=request")

// mint creates an anchor and its token, and tries the token.
func (a Account) mint(ctx context.Context, remote *access.Cluster, kind TokenKind, lifetime time.Duration) (token, error) {
	secret := &corev1.Secret{
		ObjectMeta: a.meta(a.Namespace),
		Type:       corev1.SecretTypeOpaque,
	}
	secret.Name, secret.GenerateName = "", a.Name+"-"
	if kind == Lasting {
		secret.Type = corev1.SecretTypeServiceAccountToken
		secret.Annotations[corev1.ServiceAccountNameKey] = a.Name
	}
	if err := remote.Create(ctx, secret, fieldOwner); err != nil {
		return token{}, remote.Explain(fmt.Errorf("create a Secret in %s: %w", a.Namespace, err))
	}
	made := token{anchor: secret.Name}
	if err := checkName(remote, secret.Name, a.Name+"-"); err != nil {
		return token{}, err
	}
	var err error
	if kind == Lasting {
		made.value, err = filled(ctx, remote, secret)
	} else {
		made.value, made.expires, err = request(ctx, remote, a, bound(secret, lifetime))
	}
	if err != nil {
		return made, err
	}
	if !remote.Issues(made.value) {
		return token{}, fmt.Errorf("%w: %w", errNotIssued, kubeconfig.ErrNotKubernetes)
	}
	return made, try(ctx, remote.Config, made.value)
}

// errNotIssued: the remote has sent back its administrator's token, which the hub must not get.
var errNotIssued = errors.New("the remote sends your own token back instead of a new one")

// checkName fails unless a generated name has the requested prefix.
func checkName(remote *access.Cluster, name, prefix string) error {
	if !strings.HasPrefix(name, prefix) || len(validation.IsDNS1123Subdomain(name)) > 0 || remote.Redact(name) != name {
		return fmt.Errorf("%s has given a Secret a name without the requested prefix: %w", remote.What, kubeconfig.ErrNotKubernetes)
	}
	return nil
}

func bound(anchor *corev1.Secret, lifetime time.Duration) *authenticationv1.TokenRequest {
	seconds := int64(lifetime / time.Second)
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: anchor.Name, UID: anchor.UID},
	}}
}

func request(ctx context.Context, remote *access.Cluster, a Account, wanted *authenticationv1.TokenRequest) (string, time.Time, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
	if err := remote.SubResource("token").Create(ctx, account, wanted); err != nil {
		return "", time.Time{}, remote.Explain(fmt.Errorf("request a token of %s: %w", nameOf(account), err))
	}
	return wanted.Status.Token, wanted.Status.ExpirationTimestamp.Time, nil
}

func filled(ctx context.Context, remote *access.Cluster, secret *corev1.Secret) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tokenPatience, errNotFilled)
	defer cancel()
	err := access.Poll(ctx, pollPeriod, func() (bool, error) {
		err := remote.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		return len(secret.Data[corev1.ServiceAccountTokenKey]) > 0, remote.Explain(err)
	})
	return string(secret.Data[corev1.ServiceAccountTokenKey]), err
}

var errNotAccepted = errors.New("the remote does not accept the token that it has just issued")

// try waits: an API server may take a moment to know a new account.
func try(ctx context.Context, admin *rest.Config, value string) error {
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = value
	user, err := access.NewRemote("the remote, with the new token", config)
	if err != nil {
		return err
	}
	defer user.HTTP.CloseIdleConnections()
	ctx, cancel := context.WithTimeoutCause(ctx, tokenPatience, errNotAccepted)
	defer cancel()
	return access.Poll(ctx, pollPeriod, func() (bool, error) {
		err := user.Create(ctx, &authenticationv1.SelfSubjectReview{})
		if apierrors.IsUnauthorized(err) {
			return false, nil
		}
		return err == nil, user.Explain(err)
	})
}

// revoke deletes every anchor but one, and returns the names.
func (a Account) revoke(ctx context.Context, remote *access.Cluster, keep string) ([]string, error) {
	var secrets corev1.SecretList
	err := remote.List(ctx, &secrets, client.InNamespace(a.Namespace), client.MatchingLabels{labelManagedBy: managedBy})
	if err != nil {
		return nil, remote.Explain(fmt.Errorf("list Secrets in %s: %w", a.Namespace, err))
	}
	var revoked []string
	var errs []error
	for _, secret := range secrets.Items {
		if secret.Name == keep || secret.Annotations[annotationOwner] != a.Owner {
			continue
		}
		if err := client.IgnoreNotFound(remote.Delete(ctx, &secret)); err != nil {
			errs = append(errs, remote.Explain(fmt.Errorf("delete %s: %w", remote.Quote(nameOf(&secret)), err)))
			continue
		}
		revoked = append(revoked, remote.Quote(nameOf(&secret)))
	}
	return revoked, errors.Join(errs...)
}
