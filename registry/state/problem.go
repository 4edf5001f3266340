// SPDX-License-Identifier: Apache-2.0

package state

// Problem identifies the problem of a message. The registry's messages state facts and name no flag, command,
// annotation or field of the program, which adds its advice by the Problem, as clusterstatus does. The zero Problem
// needs none.
type Problem struct {
	Kind ProblemKind
	// ClusterID is that of the credentials, for ProblemIdentityChanged only.
	ClusterID string
}

// ProblemKind is finer than the reason of a Condition, which may be another: a new credential that leads to another
// cluster is NotInUse.
type ProblemKind string

// Kinds of problems.
const (
	// ProblemIdentityChanged: the credentials lead to another cluster than the registered one.
	ProblemIdentityChanged ProblemKind = "IdentityChanged"
	// ProblemIsHub: the credentials lead to the hub's own cluster.
	ProblemIsHub ProblemKind = "IsHub"
	// ProblemTooManyObjects, ProblemTooManyBytes: an app's cache exceeds Limits.MaxObjects or Limits.MaxCacheBytes.
	ProblemTooManyObjects ProblemKind = "TooManyObjects"
	ProblemTooManyBytes   ProblemKind = "TooManyBytes"
	// ProblemResponseTooLarge: a response is larger than Limits.MaxCacheBytes allows.
	ProblemResponseTooLarge ProblemKind = "ResponseTooLarge"
	// ProblemUndeclaredRule, ProblemUndeclaredHubRule: a module lacks a permission that its rules do not declare.
	ProblemUndeclaredRule    ProblemKind = "UndeclaredRule"
	ProblemUndeclaredHubRule ProblemKind = "UndeclaredHubRule"
)
