// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
)

// ErrNotHeld says that an API server would let the account of a rehearsal write.
var ErrNotHeld = errors.New("the policy for rehearsals is not in force")

const (
	heldTimeout = 10 * time.Second
	// heldTries are on connections of their own: an API server may have several processes behind one address.
	heldTries = 3
)

// Held returns nil if the API server refuses an empty patch of the account itself, which would change nothing, but for a dry run.
func Held(ctx context.Context, by http.RoundTripper, server string) error {
	ctx, cancel := context.WithTimeout(ctx, heldTimeout)
	defer cancel()
	clients, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: server, QPS: -1}, &http.Client{Transport: by})
	if err != nil {
		return err
	}
	self, err := clients.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("ask who the account of rehearsals is: %w", plain(err))
	}
	name, isAccount := strings.CutPrefix(self.Status.UserInfo.Username, "system:serviceaccount:")
	namespace, name, found := strings.Cut(name, ":")
	if !isAccount || !found {
		return fmt.Errorf("%w: the credentials are of no ServiceAccount", ErrNotHeld)
	}
	patch := func(dryRun ...string) error {
		_, err := clients.CoreV1().ServiceAccounts(namespace).Patch(ctx, name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{DryRun: dryRun})
		return err
	}
	if err := patch(metav1.DryRunAll); err != nil {
		if isRefused(err) {
			return fmt.Errorf("%w, as far as can be seen: a dry run of a patch of the own account is refused, too", ErrNotHeld)
		}
		return fmt.Errorf("dry-run a patch of the own account: %w", plain(err))
	}
	if err := holesIn(ctx, clients); err != nil {
		return err
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

// holesIn returns an error if the account may do what no policy limits: impersonate, or change the policies.
func holesIn(ctx context.Context, clients kubernetes.Interface) error {
	of := func(verb, group, resource string) access.Right {
		return access.Right{Verb: verb, Group: group, Resource: resource}
	}
	const asOther, admission = "impersonate", "admissionregistration.k8s.io"
	all := []access.Right{
		of(asOther, "", "users"), of(asOther, "", "groups"), of(asOther, "", "serviceaccounts"),
		of(asOther, authenticationv1.GroupName, "uids"), of(asOther, authenticationv1.GroupName, "userextras"),
	}
	for _, verb := range []string{"update", "patch", "delete", "deletecollection"} {
		all = append(all, of(verb, admission, "validatingadmissionpolicies"), of(verb, admission, "validatingadmissionpolicybindings"))
	}
	for _, one := range all {
		allowed, err := may(ctx, clients, one)
		if err != nil {
			return err
		}
		if allowed {
			return fmt.Errorf("%w for all that the account may do: it may %s %s", ErrNotHeld, one.Verb, one.Resource)
		}
	}
	return nil
}

func may(ctx context.Context, clients kubernetes.Interface, what access.Right) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: what.Review()}
	answer, err := clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask for the permissions of the account of rehearsals: %w", plain(err))
	}
	return answer.Status.Allowed, nil
}

// holdHub returns nil if the account of the rehearsal may neither read the Secrets of the hub nor write there.
func (r *rehearsal) holdHub(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(r.Hub.Config)
	if err != nil {
		return err
	}
	for _, verb := range []string{"get", "list"} {
		allowed, err := may(ctx, clients, access.Right{Namespace: r.Hub.CredentialsNamespace, Verb: verb, Resource: "secrets"})
		if err != nil {
			return err
		}
		if allowed {
			return fmt.Errorf("this account may %s the Secrets of the hub in %s, so only the rehearsal's own word keeps it from writing: "+
				"run it as the Job of install --rehearsal, or say --trust-observe", verb, r.Hub.CredentialsNamespace)
		}
	}
	if err := Held(ctx, r.live, strings.TrimSuffix(r.Hub.Config.Host, "/")); err != nil {
		return fmt.Errorf("in the hub's cluster: %w", err)
	}
	return nil
}
