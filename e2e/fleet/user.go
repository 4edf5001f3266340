// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const defaultLifetime = 24 * time.Hour

// User is the subject of a credential.
type User struct {
	// Name of the user, or of the service account of a token.
	Name string
	// Namespace of the service account. Default: kube-system.
	Namespace string
	// Groups are for certificates only.
	Groups []string
	// Rules apply in the whole cluster. Default: what every user may.
	Rules []rbacv1.PolicyRule
	// Lifetime of the credential; seconds will do. Default: a day.
	Lifetime time.Duration
}

// A Credential authenticates a User to a Cluster.
type Credential struct {
	access  access
	revoke  func(context.Context) error
	expires time.Time
}

// Kubeconfig returns a kubeconfig for the user; it names no file.
func (c *Credential) Kubeconfig() []byte { return c.access.kubeconfig() }

// Config returns a client configuration for the user, another copy each time.
func (c *Credential) Config() *rest.Config { return c.access.config() }

// Expires is when the credential is refused. An API server may let a token pass for ten seconds longer.
func (c *Credential) Expires() time.Time { return c.expires }

// Revoke removes the user's permissions and, with a token, the service account. A token is Unauthorized after the ten
// seconds of the API server's cache; until then, and with a certificate forever, the response is Forbidden. It ends all
// credentials of that name in this cluster.
func (c *Credential) Revoke(ctx context.Context) error { return c.revoke(ctx) }

// MintCertificate signs a client certificate with the cluster's own authority.
func (c *Cluster) MintCertificate(ctx context.Context, u User) (*Credential, error) {
	u = u.withDefaults()
	subject := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: u.Name}
	if err := c.grant(ctx, subject, u.Rules); err != nil {
		return nil, err
	}
	a := c.accessFor(u)
	expires := u.expires()
	var err error
	if a.cert, a.key, err = c.authority.client(u.Name, u.Groups, expires); err != nil {
		return nil, err
	}
	revoke := func(ctx context.Context) error { return c.withdraw(ctx, subject) }
	return &Credential{access: a, revoke: revoke, expires: expires}, nil
}

// MintToken signs a token of a service account, created if necessary, with the cluster's own key.
func (c *Cluster) MintToken(ctx context.Context, u User) (*Credential, error) {
	if len(u.Groups) > 0 {
		return nil, errors.New("mint a token: a service account cannot be given groups; mint a certificate")
	}
	u = u.withDefaults()
	sa, err := c.serviceAccount(ctx, u)
	if err != nil {
		return nil, err
	}
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: sa.Namespace, Name: sa.Name}
	if err := c.grant(ctx, subject, u.Rules); err != nil {
		return nil, err
	}
	secret, err := c.bindToken(ctx, sa)
	if err != nil {
		return nil, err
	}
	a := c.accessFor(u)
	expires := u.expires()
	if a.token, err = c.authority.token(sa, secret, expires); err != nil {
		return nil, err
	}
	c.chores.add(ctx, time.Until(expires), func(ctx context.Context) error { return c.unbindToken(ctx, secret) })
	revoke := func(ctx context.Context) error {
		return errors.Join(c.deleteServiceAccount(ctx, u), c.withdraw(ctx, subject))
	}
	return &Credential{access: a, revoke: revoke, expires: expires}, nil
}

func (u User) withDefaults() User {
	if u.Lifetime == 0 {
		u.Lifetime = defaultLifetime
	}
	if u.Namespace == "" {
		u.Namespace = metav1.NamespaceSystem
	}
	return u
}

// Credentials have whole seconds: it rounds down.
func (u User) expires() time.Time {
	return time.Now().Add(u.Lifetime + time.Second - 1).Truncate(time.Second)
}

// accessFor has no credential yet.
func (c *Cluster) accessFor(u User) access {
	return access{cluster: c.Name(), user: u.Name, server: c.admin.server, ca: c.admin.ca}
}
