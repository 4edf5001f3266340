// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	path, err := ownAccount(ctx, by, server)
	if err != nil {
		return err
	}
	switch code, err := patchNothing(ctx, by, server+path+"?dryRun="+metav1.DryRunAll); {
	case err != nil:
		return fmt.Errorf("ask whether the policy for rehearsals is in force: %w", err)
	case code != http.StatusOK:
		return fmt.Errorf("%w, as far as can be seen: a dry run of a patch of the own account has the status %d", ErrNotHeld, code)
	}
	if err := holesIn(ctx, by, server); err != nil {
		return err
	}
	for range heldTries {
		if idle, can := by.(interface{ CloseIdleConnections() }); can {
			idle.CloseIdleConnections()
		}
		code, err := patchNothing(ctx, by, server+path)
		if err != nil {
			return fmt.Errorf("ask whether the policy for rehearsals is in force: %w", err)
		}
		if code != http.StatusForbidden && code != http.StatusUnprocessableEntity {
			return fmt.Errorf("%w: an empty patch that is no dry run has the status %d; run register with --rehearsal again", ErrNotHeld, code)
		}
	}
	return nil
}

// holesIn returns an error if the account may do what no policy limits: impersonate, or change the policies.
func holesIn(ctx context.Context, by http.RoundTripper, server string) error {
	var all []authorizationv1.ResourceAttributes
	for _, resource := range []string{"users", "groups", "serviceaccounts"} {
		all = append(all, authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: resource})
	}
	for _, resource := range []string{"uids", "userextras"} {
		all = append(all, authorizationv1.ResourceAttributes{Verb: "impersonate", Group: "authentication.k8s.io", Resource: resource})
	}
	for _, verb := range []string{"update", "patch", "delete", "deletecollection"} {
		for _, resource := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"} {
			all = append(all, authorizationv1.ResourceAttributes{Verb: verb, Group: "admissionregistration.k8s.io", Resource: resource})
		}
	}
	for _, one := range all {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &one}}
		review.SetGroupVersionKind(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"))
		if err := post(ctx, by, server+"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review); err != nil {
			return err
		}
		if review.Status.Allowed {
			return fmt.Errorf("%w for all that the account may do: it may %s %s", ErrNotHeld, one.Verb, one.Resource)
		}
	}
	return nil
}

func ownAccount(ctx context.Context, by http.RoundTripper, server string) (string, error) {
	var review authenticationv1.SelfSubjectReview
	review.SetGroupVersionKind(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"))
	if err := post(ctx, by, server+"/apis/authentication.k8s.io/v1/selfsubjectreviews", &review); err != nil {
		return "", err
	}
	name, isAccount := strings.CutPrefix(review.Status.UserInfo.Username, "system:serviceaccount:")
	namespace, name, found := strings.Cut(name, ":")
	if !isAccount || !found {
		return "", fmt.Errorf("%w: the credentials are of no ServiceAccount", ErrNotHeld)
	}
	return "/api/v1/namespaces/" + namespace + "/serviceaccounts/" + name, nil
}

func patchNothing(ctx context.Context, by http.RoundTripper, url string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPatch, url, strings.NewReader("{}"))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/merge-patch+json")
	response, err := by.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxBody))
	return response.StatusCode, response.Body.Close()
}

func post(ctx context.Context, by http.RoundTripper, url string, review any) error {
	body, err := json.Marshal(review)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	response, err := by.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("ask the API server about the account: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("ask the API server about the account: status %d", response.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(response.Body, maxBody)).Decode(review)
}

// holdHub returns nil if the account of the rehearsal may neither read the Secrets of the hub nor write there.
func (r *rehearsal) holdHub(ctx context.Context) error {
	if r.Trust {
		return nil
	}
	for _, verb := range []string{"get", "list"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: r.Hub.CredentialsNamespace, Verb: verb, Resource: "secrets"},
		}}
		if err := r.hub.Create(ctx, review); err != nil {
			return fmt.Errorf("ask for the permissions of this account: %w", err)
		}
		if review.Status.Allowed {
			return fmt.Errorf("this account may %s the Secrets of the hub in %s, so only the rehearsal's own word keeps it from writing: "+
				"run it as the Job of install --rehearsal, or say --trust-observe", verb, r.Hub.CredentialsNamespace)
		}
	}
	if err := Held(ctx, r.live, strings.TrimSuffix(r.Hub.Config.Host, "/")); err != nil {
		return fmt.Errorf("in the hub's cluster: %w", err)
	}
	return nil
}
