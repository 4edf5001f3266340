// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// For clusters of processes and of kind.
const issuer = "https://kubernetes.default.svc.cluster.local"

type claims struct {
	Issuer     string     `json:"iss"`
	Audience   []string   `json:"aud"`
	Subject    string     `json:"sub"`
	ID         string     `json:"jti"`
	IssuedAt   int64      `json:"iat"`
	NotBefore  int64      `json:"nbf"`
	Expires    int64      `json:"exp"`
	Kubernetes kubernetes `json:"kubernetes.io"`
}

// kubernetes names what a token is bound to.
type kubernetes struct {
	Namespace      string `json:"namespace"`
	ServiceAccount object `json:"serviceaccount"`
	Secret         object `json:"secret"`
}

// A token does not outlive the object.
type object struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

func accountUser(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// token has any lifetime; the API server's own live for ten minutes at least.
func (a *authority) token(sa *corev1.ServiceAccount, secret *corev1.Secret, expires time.Time) (string, error) {
	now := time.Now()
	c := claims{
		Issuer:    issuer,
		Audience:  []string{issuer},
		Subject:   accountUser(sa.Namespace, sa.Name),
		ID:        rand.Text(),
		IssuedAt:  now.Unix(),
		NotBefore: now.Add(-clockSkew).Unix(),
		Expires:   expires.Unix(),
		Kubernetes: kubernetes{
			Namespace:      sa.Namespace,
			ServiceAccount: object{Name: sa.Name, UID: string(sa.UID)},
			Secret:         object{Name: secret.Name, UID: string(secret.UID)},
		},
	}
	payload, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	return signToken(a.tokenKey, payload)
}

// RFC 7515, compact form.
func signToken(key crypto.Signer, payload []byte) (string, error) {
	algorithm := "ES256"
	if _, ok := key.(*rsa.PrivateKey); ok {
		algorithm = "RS256"
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode(fmt.Appendf(nil, `{"alg":%q,"typ":"JWT"}`, algorithm)) + "." + encode(payload)
	digest := sha256.Sum256([]byte(signed))
	signature, err := signDigest(key, digest[:])
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return signed + "." + encode(signature), nil
}

// As RFC 7518 wants it: for ES256 the two numbers side by side, 32 bytes each.
func signDigest(key crypto.Signer, digest []byte) ([]byte, error) {
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return key.Sign(rand.Reader, digest, crypto.SHA256)
	}
	r, s, err := ecdsa.Sign(rand.Reader, ec, digest)
	if err != nil {
		return nil, err
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signature, nil
}
