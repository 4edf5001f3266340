// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// shown credentials may be in whatever the server writes.
type shown struct {
	known []kubeconfig.Credential
	// last is the token of the last request: a plugin of the kubeconfig may issue tokens that no configuration has.
	last atomic.Pointer[string]
}

func (s *shown) note(next http.RoundTripper) http.RoundTripper { return noting{next, s} }

type noting struct {
	next  http.RoundTripper
	shown *shown
}

func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	if token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); found {
		n.shown.last.Store(&token)
	}
	return n.next.RoundTrip(r)
}

func (s *shown) all() []kubeconfig.Credential {
	if s == nil {
		return nil
	}
	if last := s.last.Load(); last != nil {
		return append(s.known[:len(s.known):len(s.known)], kubeconfig.CredentialOf(&rest.Config{BearerToken: *last}))
	}
	return s.known
}

// Redact replaces each part of the client's credentials in a text.
func (c *Cluster) Redact(text string) string { return kubeconfig.Redact(text, c.shown.all()...) }

// Quote makes a remote's text fit to be printed: one short line without the client's credentials.
func (c *Cluster) Quote(text string) string { return kubeconfig.Quote(text, c.Redact) }

// maxToken is longer than any version, UID or name that an API server has.
const maxToken = 256

// Token returns what a remote says of itself, such as its version or a user, if it is short, has the alphabet of those
// and nothing of the client's credentials; otherwise a text that says so.
func (c *Cluster) Token(text string) string {
	if c.isToken(text) {
		return text
	}
	return "(a name that is not fit to be printed)"
}

func (c *Cluster) isToken(text string) bool {
	const alphabet = `^[A-Za-z0-9_.:@/#+=~|-]+$`
	return len(text) <= maxToken && regexp.MustCompile(alphabet).MatchString(text) && c.Redact(text) == text
}

// Issues reports whether a remote's token is new, and not the client's. Tokens begin alike, so signatures are compared.
func (c *Cluster) Issues(token string) bool {
	for _, own := range c.shown.all() {
		if own.SignatureIn(token) {
			return false
		}
	}
	return true
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }
