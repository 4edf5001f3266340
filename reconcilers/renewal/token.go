// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// life is the time for which a token was issued.
type life struct{ issued, expires time.Time }

// shortest is the shortest life that Kubernetes gives a token, longest what is believed of one.
const (
	shortest = 10 * time.Minute
	longest  = 100 * 365 * 24 * time.Hour
)

var errNoLife = errors.New("the token does not say when it was issued and when it expires, as those of the TokenRequest API do")

// lifeOf reads the life of a token from its claims. Nothing is verified: see the package comment.
func lifeOf(token []byte) (life, error) {
	issued, expires := kubeconfig.TokenLife(strings.TrimSpace(string(token)))
	if issued.IsZero() || !expires.After(issued) {
		return life{}, errNoLife
	}
	return life{issued, expires}, nil
}

// length returns how long the token lives, within what Kubernetes takes.
func (l life) length() time.Duration {
	return min(max(l.expires.Sub(l.issued), shortest), longest)
}

// due returns when the token is to be renewed.
func (l life) due() time.Time { return l.issued.Add(l.expires.Sub(l.issued) / 3 * 2) }

// seconds returns the length as the TokenRequest API takes it.
func (l life) seconds() int64 { return int64(math.Round(l.length().Seconds())) }
