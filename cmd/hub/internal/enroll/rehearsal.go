// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"cmp"
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/rehearse"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
)

// Resources of the policies of rehearsals.
const policies, policyBindings = "validatingadmissionpolicies", "validatingadmissionpolicybindings"

func policyRules() []rbacv1.PolicyRule {
	verbs := []string{verbGet, verbCreate, verbUpdate, verbDelete}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{clusterRoles}, Verbs: []string{"list"}},
		{APIGroups: []string{admissionv1.GroupName}, Resources: []string{policies, policyBindings}, Verbs: verbs},
		{APIGroups: []string{"apiregistration.k8s.io"}, Resources: []string{"apiservices"}, Verbs: []string{"list"}},
	}
}

// prepareRehearsal completes the account, which is beside that of the hub.
func (r *Registration) prepareRehearsal(ctx context.Context) error {
	hub := client.ObjectKey{Namespace: r.Namespace, Name: r.Name}
	known, err := readRecord(ctx, r.Hub, hub)
	if err != nil {
		return err
	}
	r.Account.Renews = known != nil && known.account.Renews
	if r.Account.Renews {
		r.Account.Namespace, r.Account.Name, r.renews = known.account.Namespace, known.account.Name, &known.secret
	} else {
		r.Terminal.Warn("the hub cannot renew the token: it has no account in the remote that register made; run this again before the token ends")
	}
	r.Namespace, r.Account.Name, r.Account.Rehearses = hubv1.RehearsalNamespace, rehearsing(r.Account.Name), true
	r.Account.Owner = rehearsalOf(r.Account.Owner)
	return nil
}

// Limit leaves of the rules, and of those that rules of sync have in the remote, what a policy can limit to dry runs.
func (r *Registration) Limit(ctx context.Context) error {
	unlimited, err := Aggregated(ctx, r.Remote)
	if err != nil {
		return err
	}
	var granted rbacv1.ClusterRoleList
	if err := r.Remote.List(ctx, &granted, client.MatchingLabels{hubv1.LabelAggregateToSync: "true"}); err != nil {
		return r.Remote.Explain(fmt.Errorf("list the roles for rules of sync: %w", err))
	}
	for _, role := range granted.Items {
		r.Account.Rules = append(r.Account.Rules, role.Rules...)
	}
	r.Account.Rules, err = roles.Rehearsing(r.Account.Rules, unlimited)
	return err
}

// Aggregated returns the groups of aggregated APIs, which no policy limits.
func Aggregated(ctx context.Context, in *access.Cluster) ([]string, error) {
	var list unstructured.UnstructuredList
	list.SetAPIVersion("apiregistration.k8s.io/v1")
	list.SetKind("APIServiceList")
	if err := in.List(ctx, &list); err != nil {
		return nil, in.Explain(fmt.Errorf("list the aggregated APIs: %w", err))
	}
	var groups []string
	for _, one := range list.Items {
		group, _, _ := unstructured.NestedString(one.Object, "spec", "group")
		if service, _, _ := unstructured.NestedMap(one.Object, "spec", "service"); service != nil {
			groups = append(groups, group)
		}
	}
	return groups, nil
}

// admitRehearsal returns when the policy is in force, and the namespace of the Secret is there.
func (r *Registration) admitRehearsal(ctx context.Context, made token) error {
	if err := r.awaitPolicy(ctx, made); err != nil {
		return err
	}
	r.Terminal.Done("the remote refuses everything of this account but reads and dry runs")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}}
	if err := r.Hub.Create(ctx, namespace, fieldOwner); err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err) {
		return r.Hub.Failed("create "+nameOf(namespace), err)
	}
	return nil
}

// markRehearsal has the hub renew the token.
func (r *Registration) markRehearsal(ctx context.Context) error {
	if r.renews == nil {
		return nil
	}
	before := r.renews.DeepCopy()
	metav1.SetMetaDataAnnotation(&r.renews.ObjectMeta, hubv1.AnnotationRehearsal, "true")
	return r.Hub.Failed("annotate "+nameOf(r.renews), r.Hub.Patch(ctx, r.renews, client.MergeFrom(before), fieldOwner))
}

// policyPatience is for API servers, which take a moment to apply a policy.
const policyPatience = 30 * time.Second

func (r *Registration) awaitPolicy(ctx context.Context, made token) error {
	config := rest.AnonymousClientConfig(r.Remote.Config)
	config.BearerToken = made.value
	transport, err := rest.TransportFor(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, policyPatience)
	defer cancel()
	var last error
	err = access.Poll(ctx, pollPeriod, func() (bool, error) {
		last = rehearse.Held(ctx, transport, config.Host)
		return last == nil, nil
	})
	return cmp.Or(last, err)
}
