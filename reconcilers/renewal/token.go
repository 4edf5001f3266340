// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Kubernetes grants no life of less than 10 minutes. The hub accepts no token that ends within soonest, so it
// requests at least twice that.
const (
	soonest  = 10 * time.Minute
	shortest = 2 * soonest
	longest  = 100 * 365 * 24 * time.Hour
)

// maxToken is in bytes. Tokens of ServiceAccounts have about 1 KiB.
const maxToken = 16 << 10

// skew is the tolerated difference of clocks. A token issued further in the future shows that the remote's is wrong.
const skew = time.Minute

var jwt = regexp.MustCompile(`^[\w-]+\.[\w-]+\.[\w-]+$`)

var errNoLife = errors.New("the token does not state when it was issued and when it expires, as tokens of the TokenRequest API do")

// life is by the clock of the remote.
type life struct{ issued, expires time.Time }

// lifeOf reads claims and verifies nothing: see the package comment.
func lifeOf(token []byte) (life, error) {
	issued, expires := kubeconfig.TokenLife(strings.TrimSpace(string(token)))
	if issued.IsZero() || !expires.After(issued) {
		return life{}, errNoLife
	}
	return life{issued, expires}, nil
}

func (l life) length() time.Duration { return l.expires.Sub(l.issued) }

// first is the plan for a token of others: only its claims are known, so the remote's clock counts, once. One issued
// in the future may end any time earlier than it states, so it is due at once.
func (l life) first(now time.Time) plan {
	due := l.expires.Add(-l.length() / 3)
	if l.issued.After(now.Add(skew)) {
		due = now
	}
	return plan{due: due, lifetime: within(l.length())}
}

type plan struct {
	due      time.Time
	old      life
	lifetime time.Duration
}

func within(lifetime time.Duration) time.Duration { return min(max(lifetime, shortest), longest) }

func secondsOf(lifetime time.Duration) int64 { return int64(math.Round(lifetime.Seconds())) }

type refusal struct{ why string }

func (r *refusal) Error() string { return "the new token is refused: " + r.why }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// judge returns the life of a new token, or a refusal. granted is the lifetime that the remote states, or 0. Claims
// determine how long it lives, so the remote's clock may be wrong; record.plan uses the hub's. A much shorter life is
// accepted if the old token ends first: the remote limits the lifetime now.
func (p plan) judge(token string, granted time.Duration, now time.Time) (life, error) {
	if len(token) > maxToken {
		return life{}, refuse("it is larger than %d KiB", maxToken>>10)
	}
	if !jwt.MatchString(token) {
		return life{}, refuse("it is not a JWT: three parts of letters, digits, - and _ with dots between them")
	}
	l, err := lifeOf([]byte(token))
	if err != nil {
		return life{}, refuse("it does not state when it was issued and when it expires")
	}
	lives := l.length()
	if granted > 0 {
		lives = min(lives, granted)
	}
	switch {
	case !l.expires.After(now.Add(soonest)):
		return life{}, refuse("it ends at %s, less than %s from now; compare the clocks of the hub and the remote",
			l.expires.UTC().Format(time.RFC3339), soonest)
	case lives < p.lifetime/2 && !l.expires.After(p.old.expires):
		return life{}, refuse("it lives for %s, but the hub requested %s, and the old token ends later; the remote may limit "+
			"the lifetime of tokens (--service-account-max-token-expiration)", lives, p.lifetime)
	}
	return l, nil
}
