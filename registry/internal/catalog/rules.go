// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// checkRules reports a rule that grants nothing.
func checkRules(rules []rbacv1.PolicyRule) error {
	for _, r := range rules {
		onPaths := len(r.NonResourceURLs) > 0
		if len(r.Verbs) == 0 || !onPaths && (len(r.APIGroups) == 0 || len(r.Resources) == 0) {
			return fmt.Errorf("the rule %s lacks verbs, apiGroups or resources", r.String())
		}
	}
	return nil
}

// CheckNamespaces reports an invalid name of a namespace.
func CheckNamespaces(names ...string) error {
	for _, name := range names {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("%q is not the name of a namespace: %s", name, strings.Join(problems, "; "))
		}
	}
	return nil
}
