// SPDX-License-Identifier: Apache-2.0

package state

import "fmt"

// UndeclaredAccess is a permission whose request an API server has refused, and that the module does not declare.
type UndeclaredAccess struct {
	// Module has all possible modules, joined by "or", if the sender is unknown.
	Module string
	// Right is the permission, such as "watch namespaces".
	Right string
	// InHub: the hub's API server refused it, so HubRules lack it, not Rules.
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
