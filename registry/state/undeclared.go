// SPDX-License-Identifier: Apache-2.0

package state

import "fmt"

// UndeclaredAccess is a permission that a module needs for a request which an API server has refused, and does not declare.
type UndeclaredAccess struct {
	// Module is the name of the module. If the module that has sent the request is unknown, it has the names of all
	// possible modules, joined by "or".
	Module string
	// Right is the permission, such as "watch namespaces".
	Right string
	// InHub says that the API server of the hub has refused the request: HubRules lack the permission, and not Rules.
	InHub bool
}

// String names the permission and the rules that lack it.
func (u UndeclaredAccess) String() string {
	rules := "Rules"
	if u.InHub {
		rules = "HubRules"
	}
	return fmt.Sprintf("module %s does not declare %q in its %s", u.Module, u.Right, rules)
}

// Problem identifies the problem, for advice that is not in String.
func (u UndeclaredAccess) Problem() Problem {
	if u.InHub {
		return Problem{Kind: ProblemUndeclaredHubRule}
	}
	return Problem{Kind: ProblemUndeclaredRule}
}
