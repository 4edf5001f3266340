// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet"
)

type mintFunc func(*fleet.Cluster, context.Context, fleet.User) (*fleet.Credential, error)

func (r *Remote) mint(how mintFunc, lifetime time.Duration) {
	r.tb.Helper()
	r.state.credential = r.minted(how, lifetime)
}

// minted is for another user than before, with the hub's permissions.
func (r *Remote) minted(how mintFunc, lifetime time.Duration) *fleet.Credential {
	r.tb.Helper()
	r.state.users++
	minted, err := how(r.way.cluster, r.tb.Context(), fleet.User{
		Name: fmt.Sprintf("hubtest-%d", r.state.users), Rules: r.site.rules(), Lifetime: lifetime,
	})
	r.must(err, "create a credential for %s", r.Name())
	return minted
}

// RotateToken puts another user's token into the Secret, waits until the app uses it, and revokes the previous
// credential. The app keeps its Epoch.
func (r *Remote) RotateToken() {
	r.tb.Helper()
	before := r.state.credential
	r.mint((*fleet.Cluster).MintToken, 0)
	r.use()
	r.must(before.Revoke(r.tb.Context()), "revoke the last credential of %s", r.Name())
}

// RevokeToken takes the hub's permissions and makes its token invalid. The API server caches tokens for ten seconds:
// responses are Forbidden first, Unauthorized later. RotateToken restores access.
func (r *Remote) RevokeToken() {
	r.tb.Helper()
	r.must(r.state.credential.Revoke(r.tb.Context()), "revoke the credential of %s", r.Name())
}

// certificateLifetime is the first try. Each further one lives twice as long, until the app gets it in time.
const certificateLifetime = 5 * time.Second

// ExpireCertificate stores a client certificate of a few seconds, waits until the app uses it, and returns when it
// has expired. RotateToken restores access.
func (r *Remote) ExpireCertificate() {
	r.tb.Helper()
	before := r.Cluster().Status.Credentials.Fingerprint
	for lifetime := certificateLifetime; ; lifetime *= 2 {
		r.mint((*fleet.Cluster).MintCertificate, lifetime)
		r.store()
		if r.usesInTime(before) {
			break
		}
	}
	select {
	case <-time.After(time.Until(r.state.credential.Expires())):
	case <-r.tb.Context().Done():
	}
}

func (r *Remote) use() {
	r.tb.Helper()
	before := r.Cluster().Status.Credentials.Fingerprint
	r.store()
	r.wait("the use of new credentials", func(ctx context.Context) error { return r.usesOthers(ctx, before) })
}

func (r *Remote) usesInTime(before string) bool {
	r.tb.Helper()
	expired := false
	r.wait("the use of new credentials", func(ctx context.Context) error {
		err := r.usesOthers(ctx, before)
		if err != nil && time.Now().After(r.state.credential.Expires()) {
			expired, err = true, nil
		}
		return err
	})
	return !expired
}

func (r *Remote) usesOthers(ctx context.Context, before string) error {
	c, err := r.get(ctx)
	if err == nil && c.Status.Credentials.Fingerprint == before {
		err = errors.New("the hub still uses the old credentials")
	}
	return err
}
