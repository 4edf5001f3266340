// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// ErrNotHeld says that an API server would let the account of a rehearsal write.
var ErrNotHeld = errors.New("the policy for rehearsals is not in force")

const (
	heldTimeout = 10 * time.Second
	// heldTries are on connections of their own: an API server may have several processes behind one address.
	heldTries = 3
)

// held returns nil if the account of an app may not write; that of the hub may not read the Secrets of the hub, either.
func (r *rehearsal) held(ctx context.Context, a *app) error {
	if r.Trust {
		return nil
	}
	if a != r.hubParts {
		return Held(ctx, a.remote, a.desired.Endpoint.Server)
	}
	in := r.Hub.CredentialsNamespace
	reads, err := allowed(ctx, r.hub, rbac.Right{Verb: "get", Resource: "secrets", Namespace: in}, rbac.Right{Verb: "list", Resource: "secrets", Namespace: in})
	if err != nil {
		return err
	}
	if len(reads) > 0 {
		return fmt.Errorf("this account may %s the Secrets of the hub in %s, so only the rehearsal's own word keeps it from writing: "+
			"run it as the Job of install --rehearsal, or say --trust-observe", reads[0].Verb, in)
	}
	if err := Held(ctx, a.hub, strings.TrimSuffix(r.Hub.Config.Host, "/")); err != nil {
		return fmt.Errorf("in the hub's cluster: %w", err)
	}
	return nil
}

// Held returns nil if the API server refuses an empty patch of the account itself, which would change nothing, but for a dry run.
func Held(ctx context.Context, by http.RoundTripper, server string) error {
	ctx, cancel := context.WithTimeout(ctx, heldTimeout)
	defer cancel()
	in, err := access.New("the cluster", &rest.Config{Host: server, Transport: by})
	if err != nil {
		return err
	}
	var self authenticationv1.SelfSubjectReview
	if err := in.Create(ctx, &self); err != nil {
		return fmt.Errorf("ask who the account of rehearsals is: %w", plain(err))
	}
	name, isAccount := strings.CutPrefix(self.Status.UserInfo.Username, "system:serviceaccount:")
	namespace, name, found := strings.Cut(name, ":")
	if !isAccount || !found {
		return fmt.Errorf("%w: the credentials are of no ServiceAccount", ErrNotHeld)
	}
	patch := func(options ...client.PatchOption) error {
		account := &corev1.ServiceAccount{}
		account.Namespace, account.Name = namespace, name
		return in.Patch(ctx, account, client.RawPatch(types.MergePatchType, []byte("{}")), options...)
	}
	if err := patch(client.DryRunAll); err != nil {
		if isRefused(err) {
			return fmt.Errorf("%w, as far as can be seen: a dry run of a patch of the own account is refused, too", ErrNotHeld)
		}
		return fmt.Errorf("dry-run a patch of the own account: %w", plain(err))
	}
	holes, err := allowed(ctx, in, unlimited()...)
	if err != nil {
		return err
	}
	if len(holes) > 0 {
		return fmt.Errorf("%w for all that the account may do: it may %s", ErrNotHeld, access.Names(holes))
	}
	for range heldTries {
		utilnet.CloseIdleConnectionsFor(by)
		if err := patch(); err == nil {
			return fmt.Errorf("%w: it admits a patch that is no dry run; run register with --rehearsal again", ErrNotHeld)
		} else if !isRefused(err) {
			return fmt.Errorf("ask whether the policy for rehearsals is in force: %w", plain(err))
		}
	}
	return nil
}

func isRefused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }

// plain leaves out what an API server has written.
func plain(err error) error {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return fmt.Errorf("the API server answers with the status %d", status.Status().Code)
	}
	return err
}

// unlimited is what no policy limits: to impersonate, and to change the policies.
func unlimited() []rbac.Right {
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	return rbac.RightsOf([]rbacv1.PolicyRule{
		rule("", []string{"users", "groups", "serviceaccounts"}, "impersonate"),
		rule(authenticationv1.GroupName, []string{"uids", "userextras"}, "impersonate"),
		rule(admissionv1.GroupName, []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}, "update", "patch", "delete", "deletecollection"),
	})
}

// allowed returns which of the permissions the account has.
func allowed(ctx context.Context, in *access.Cluster, rights ...rbac.Right) ([]rbac.Right, error) {
	lacks, err := in.Lacks(ctx, rights)
	if err != nil {
		return nil, fmt.Errorf("ask for the permissions of the account of rehearsals: %w", plain(err))
	}
	return slices.DeleteFunc(rights, func(one rbac.Right) bool { return slices.Contains(lacks, one) }), nil
}
