// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// CredentialType is the kind of a Credential.
type CredentialType string

// The zero Credential has no kind.
const (
	// Token is a bearer token.
	Token CredentialType = "Token"
	// ClientCertificate is a client certificate with its private key.
	ClientCertificate CredentialType = "ClientCertificate"
)

// Credential is the identity of the hub for a remote: a bearer token or a client certificate. Parse makes it; only the
// Transport extracts the secret. Printing, logging and encoding show only its type. Copies share the secret, which
// never changes. The zero value is no credential.
type Credential struct {
	// hidden is two pointers away: fmt cannot call methods of a value in an unexported field, and follows one pointer
	// if the verb is wrong, such as %s.
	hidden **secret
}

type secret struct {
	kind  CredentialType
	token string
	chain []byte // client certificate and intermediates, PEM
	key   []byte // PEM
	// pair is the parsed chain and key of a ClientCertificate.
	pair  tls.Certificate
	parts []string // see partsOf
	// Zero if unknown.
	issued, expires time.Time
}

func newCredential(s *secret) Credential {
	s.parts = partsOf(s) // once, because each event of a watch may be searched for them
	return Credential{hidden: &s}
}

func (c Credential) secret() *secret {
	if c.hidden == nil {
		return &secret{}
	}
	return *c.hidden
}

// Type returns the kind of credential, or an empty string for the zero value.
func (c Credential) Type() CredentialType { return c.secret().kind }

// Expires returns when the certificate expires, or the token if it is a JWT; zero if unknown.
func (c Credential) Expires() time.Time { return c.secret().expires }

// Issued returns when the certificate, or a token that is a JWT, says that it was issued; zero if unknown.
func (c Credential) Issued() time.Time { return c.secret().issued }

// Equal reports whether two credentials are the same.
func (c Credential) Equal(other Credential) bool {
	a, b := c.secret(), other.secret()
	return a.kind == b.kind && bytes.Equal(a.chain, b.chain) &&
		subtle.ConstantTimeCompare([]byte(a.token), []byte(b.token)) == 1 &&
		subtle.ConstantTimeCompare(a.key, b.key) == 1
}

// Fingerprint returns a short text that differs for different credentials, empty for the zero value. It is keyed, so
// that its readers cannot check a guess; key should be 32 random bytes that only the hub knows.
func (c Credential) Fingerprint(key []byte) string {
	s := c.secret()
	if s.kind == "" {
		return ""
	}
	h := hmac.New(sha256.New, key)
	writeParts(h, string(s.kind), s.token, string(s.chain), string(s.key))
	return hex.EncodeToString(h.Sum(nil)[:fingerprintLen])
}

// String returns the type and nothing of the value, as do the next methods.
func (c Credential) String() string {
	if c.Type() == "" {
		return "no credential"
	}
	return string(c.Type()) + " (redacted)"
}

// GoString is String, for the verb %#v.
func (c Credential) GoString() string { return c.String() }

// Format is String, for every verb.
func (c Credential) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// MarshalJSON encodes String. There is no way back.
func (c Credential) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// LogValue is String, for log/slog.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Assert that every way of printing is limited to String.
var (
	_ fmt.Formatter  = Credential{}
	_ fmt.GoStringer = Credential{}
	_ slog.LogValuer = Credential{}
	_ json.Marshaler = Credential{}
)

// identity is a user entry of any form, with places.
type identity struct {
	token      string
	chain, key []byte

	inUser, inToken, inChain, inKey place
}

// credential is zero for an empty identity.
func (i identity) credential() (Credential, error) {
	hasCertificate := len(i.chain) > 0 || len(i.key) > 0
	switch {
	case i.token != "" && hasCertificate:
		return Credential{}, i.inUser.invalid("has a token and a client certificate, " +
			"and the server decides which of the two counts; remove one of them")
	case i.token != "":
		return tokenCredential(i.token, i.inToken)
	case hasCertificate:
		return i.certificateCredential()
	}
	return Credential{}, nil
}

func tokenCredential(token string, at place) (Credential, error) {
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return Credential{}, at.invalid("the token has a space, a line break or another character that no token has; store it without them")
		}
	}
	issued, expires := TokenLife(token)
	return newCredential(&secret{kind: Token, token: token, issued: issued, expires: expires}), nil
}

func (i identity) certificateCredential() (Credential, error) {
	if len(i.chain) == 0 {
		return Credential{}, i.inChain.invalid("there is a private key without a client certificate; add the certificate")
	}
	if len(i.key) == 0 {
		return Credential{}, i.inKey.invalid("there is a client certificate without its private key; add the key")
	}
	chain, err := parseCertificates(i.chain, i.inChain)
	if err != nil {
		return Credential{}, err
	}
	key, err := parseKey(i.key, i.inKey)
	if err != nil {
		return Credential{}, err
	}
	encoded := encodeCertificates(chain)
	pair, err := pairOf(encoded, key, i.inKey)
	if err != nil {
		return Credential{}, err
	}
	return newCredential(&secret{
		kind: ClientCertificate, chain: encoded, key: key, pair: pair, issued: chain[0].NotBefore, expires: chain[0].NotAfter,
	}), nil
}

func (c Credential) check(at place, now time.Time) error {
	what := map[CredentialType]string{Token: "token", ClientCertificate: "client certificate"}[c.Type()]
	if what == "" {
		return at.invalid("has neither a token nor a client certificate; add a token or a client certificate")
	}
	if c.Expires().IsZero() || now.Before(c.Expires()) {
		return nil
	}
	return at.refuse(ReasonExpired, "the "+what+" expired at "+c.Expires().UTC().Format(time.RFC3339)+
		"; issue a new one and store it in the Secret")
}

// maxExpiry is the year 9999, the last of RFC 3339.
const maxExpiry = 253402300799

// TokenLife returns when a JWT was issued and expires; zero for what is missing or impossible. It verifies nothing: the
// server does, and a wrong time harms only its author.
func TokenLife(token string) (issued, expires time.Time) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, time.Time{}
	}
	var claims struct {
		Issued  float64 `json:"iat"`
		Expires float64 `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return time.Time{}, time.Time{}
	}
	return claimedTime(claims.Issued), claimedTime(claims.Expires)
}

func claimedTime(seconds float64) time.Time {
	if seconds <= 0 || seconds > maxExpiry {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}
