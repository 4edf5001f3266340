// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RehearsalAccount is the ServiceAccount of the Job, in hubv1.RehearsalNamespace, which has nothing of the hub.
const RehearsalAccount = "clusterfx-rehearsal"

// mayOnlyDryRun admits reviews, which change nothing. Kubernetes issues a token in a dry run, too.
const mayOnlyDryRun = "request.operation != 'CONNECT' && !(has(request.subResource) && request.subResource == 'token') && (has(request.dryRun) && request.dryRun || " +
	"request.resource.group in ['authorization.k8s.io', 'authentication.k8s.io'] && request.resource.resource.endsWith('reviews'))"

// DryRunOnly returns a ServiceAccount with the rules that Rehearsing has left, further rules in its namespace, and, before all since
// objects are deleted backward, the policy by which it may only dry-run. Policies do not apply to admissionregistration.k8s.io,
// aggregated APIs and impersonation.
func DryRunOnly(meta metav1.ObjectMeta, rules []rbacv1.PolicyRule, own ...rbacv1.PolicyRule) []client.Object {
	fail, all, equivalent := admissionv1.Fail, admissionv1.AllScopes, admissionv1.Equivalent
	version := admissionv1.SchemeGroupVersion.String()
	everything := admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}, Scope: &all},
	}}
	// By a patch of itself it can be seen whether the policy is in force.
	own = append(own, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{meta.Name}, Verbs: []string{"get", "patch"}})
	account, everywhere := Account(meta.Namespace, meta.Name), *meta.DeepCopy()
	everywhere.Namespace = ""
	return slices.Concat([]client.Object{
		&admissionv1.ValidatingAdmissionPolicy{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ValidatingAdmissionPolicy"}, ObjectMeta: everywhere, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{everything}, MatchPolicy: &equivalent},
			MatchConditions: []admissionv1.MatchCondition{{
				Name: "rehearsal", Expression: fmt.Sprintf("request.userInfo.username == 'system:serviceaccount:%s:%s'", meta.Namespace, meta.Name),
			}},
			Validations: []admissionv1.Validation{{Expression: mayOnlyDryRun, Message: "the account of a rehearsal may only dry-run"}},
		}},
		&admissionv1.ValidatingAdmissionPolicyBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ValidatingAdmissionPolicyBinding"}, ObjectMeta: *everywhere.DeepCopy(),
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: meta.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
		},
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta},
	}, Bound(everywhere, rules, account), Bound(meta, own, account))
}

// Rehearsing returns what of these rules an account may have that a policy limits to dry runs, and that it may read what it writes.
// unlimited are the aggregated groups, which ignore policies and may ignore dryRun.
func Rehearsing(rules []rbacv1.PolicyRule, unlimited []string) ([]rbacv1.PolicyRule, error) {
	var all []rbacv1.PolicyRule
	for _, rule := range rules {
		if len(rule.NonResourceURLs) > 0 && slices.Contains(verbsOf(rule.Verbs, true), "get") {
			all = append(all, rbacv1.PolicyRule{NonResourceURLs: rule.NonResourceURLs, Verbs: []string{"get"}})
		}
		for _, group := range rule.APIGroups {
			if group == "*" || group == "" && slices.ContainsFunc(rule.Resources, func(r string) bool { return strings.HasPrefix(r, "*") }) {
				return nil, fmt.Errorf("a module needs %v of the group %q, and a policy cannot limit all of that to dry runs: have it name "+
					"groups and resources", rule.Resources, group)
			}
			one := rbacv1.PolicyRule{
				APIGroups: []string{group}, Resources: slices.DeleteFunc(slices.Clone(rule.Resources), leadsPast), ResourceNames: rule.ResourceNames,
				Verbs: verbsOf(rule.Verbs, slices.Contains(unlimited, group)),
			}
			if group != admissionv1.GroupName && len(one.Resources) > 0 && len(one.Verbs) > 0 {
				all = append(all, one)
			}
		}
	}
	return merged(all), nil
}

// leadsPast reports a resource that leads past the API server: nodes/proxy opens the kubelet.
func leadsPast(resource string) bool {
	_, sub, _ := strings.Cut(resource, "/")
	return slices.Contains([]string{"proxy", "exec", "attach", "portforward", "token"}, sub)
}

func verbsOf(verbs []string, onlyReads bool) []string {
	all := []string{"get", "list", "watch"}
	if !onlyReads {
		all = append(all, "create", "update", "patch", "delete", "deletecollection", "bind", "escalate")
	}
	all = slices.DeleteFunc(all, func(verb string) bool {
		return !slices.Contains(verbs, verb) && (!slices.Contains(verbs, "*") || verb == "bind" || verb == "escalate")
	})
	if !onlyReads && len(all) > 0 && all[0] != "get" {
		all = slices.Insert(all, 0, "get")
	}
	return all
}
