// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Failures in a row of an API server are told to people.
const Failures = 5

// Refusal returns the class of a refusal in checked words: the reason, the code, and fields or types of causes. It is
// false for other errors, and for what passes by itself: a conflict, a time-out, too many requests.
func Refusal(err error) (class string, refused bool) {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return "", false
	}
	s := answer.Status()
	switch s.Reason {
	case metav1.StatusReasonConflict, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonTooManyRequests:
		return "", false
	}
	var about []string
	if s.Code != 0 {
		about = append(about, strconv.Itoa(int(s.Code)))
	}
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			if one := strings.TrimSpace(cause.Field + " " + string(cause.Type)); one != "" {
				about = append(about, one)
			}
		}
	}
	class = string(s.Reason)
	if class == "" || s.Reason == metav1.StatusReasonUnknown {
		class = "Error"
	}
	if len(about) > 0 {
		class += " (" + strings.Join(about, ", ") + ")"
	}
	return class, true
}

// LacksNamespace reports a write that was refused because its Namespace does not exist.
func LacksNamespace(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || !apierrors.IsNotFound(err) {
		return false
	}
	details := answer.Status().Details
	return details != nil && details.Kind == "namespaces"
}

// EventName follows from the object's name and a digest.
func EventName(about, digest string) string {
	const most = 253 // of a name
	about = strings.TrimRight(about[:min(len(about), most-len(digest)-1)], ".-")
	return about + "." + digest
}
