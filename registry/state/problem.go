// SPDX-License-Identifier: Apache-2.0

package state

// Problem identifies the problem that a message describes. The messages of the registry state facts: they name no flag,
// command, annotation or field of the program that uses the registry. The program adds its advice by the Problem, as
// package clusterstatus does for the hub. The zero Problem means that the message needs no other advice.
type Problem struct {
	// Kind is one of the Problem constants, or empty.
	Kind ProblemKind
	// ClusterID is the id of the cluster that the credentials lead to. It is set only for ProblemIdentityChanged.
	ClusterID string
}

// ProblemKind is the kind of a Problem. It is finer than the reason of a Condition, which may also have another reason:
// a new credential that leads to another cluster is NotInUse.
type ProblemKind string

// Kinds of problems.
const (
	// ProblemIdentityChanged means that the credentials lead to another cluster than the registered cluster.
	ProblemIdentityChanged ProblemKind = "IdentityChanged"
	// ProblemIsHub means that the credentials lead to the hub's own cluster.
	ProblemIsHub ProblemKind = "IsHub"
	// ProblemTooManyObjects and ProblemTooManyBytes mean that the cache of an app exceeds Limits.MaxObjects or
	// Limits.MaxCacheBytes of the registry.
	ProblemTooManyObjects ProblemKind = "TooManyObjects"
	ProblemTooManyBytes   ProblemKind = "TooManyBytes"
	// ProblemResponseTooLarge means that an API server sends a response that is larger than Limits.MaxCacheBytes allows.
	ProblemResponseTooLarge ProblemKind = "ResponseTooLarge"
	// ProblemUndeclaredRule and ProblemUndeclaredHubRule mean that a module lacks a permission, and does not declare it
	// in its Rules or HubRules.
	ProblemUndeclaredRule    ProblemKind = "UndeclaredRule"
	ProblemUndeclaredHubRule ProblemKind = "UndeclaredHubRule"
)
