// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"strings"
	"unicode/utf8"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The registry reports facts; here is the hub's advice, which names annotations, fields, flags and commands.

// WithAdvice adds what the operator or user can do about a problem to the registry's message.
func WithAdvice(message string, problem state.Problem) string {
	advice := adviceOn(problem)
	switch {
	case advice == "":
		return message
	case strings.HasSuffix(message, "."):
		first, size := utf8.DecodeRuneInString(advice)
		return message + " " + strings.ToUpper(string(first)) + advice[size:] + "."
	}
	return message + "; " + advice
}

const (
	adviceIdentityChanged = "correct the Secret, or accept the new cluster with the annotation " + hubv1.AnnotationAcceptID + "="
	adviceIsHub           = "if that is intended, set the annotation " + hubv1.AnnotationAllowHub + "=" + hubv1.AnnotationAllowHubValue +
		", or start the hub with --allow-hub-as-remote"
	adviceTooManyObjects    = "raise --max-objects-per-cluster of the hub" + adviceLessCached
	adviceTooManyBytes      = "raise --max-cache-bytes-per-cluster of the hub" + adviceLessCached
	adviceLessCached        = ", limit spec.namespaces of the Cluster, or have the module filter what it caches or watch metadata only"
	adviceResponseTooLarge  = "raise --max-cache-bytes-per-cluster of the hub, or limit spec.namespaces of the Cluster"
	adviceUndeclaredRule    = "add it there and run hub register again"
	adviceUndeclaredHubRule = "add it there and run hub install again"
)

func adviceOn(problem state.Problem) string {
	switch problem.Kind {
	case state.ProblemIdentityChanged:
		return adviceIdentityChanged + problem.ClusterID
	case state.ProblemIsHub:
		return adviceIsHub
	case state.ProblemTooManyObjects:
		return adviceTooManyObjects
	case state.ProblemTooManyBytes:
		return adviceTooManyBytes
	case state.ProblemResponseTooLarge:
		return adviceResponseTooLarge
	case state.ProblemUndeclaredRule:
		return adviceUndeclaredRule
	case state.ProblemUndeclaredHubRule:
		return adviceUndeclaredHubRule
	}
	return ""
}
