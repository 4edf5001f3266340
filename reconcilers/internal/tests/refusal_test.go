// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	objects "github.com/clusterfx/clusterfx/reconcilers/internal/object"
)

// A refusal has the class of its error and no text of the server; what passes by itself is none.
func TestRefusal(t *testing.T) {
	t.Parallel()
	of := func(code int32, reason metav1.StatusReason, causes ...metav1.StatusCause) error {
		return fmt.Errorf("write: %w", &apierrors.StatusError{ErrStatus: metav1.Status{
			Code: code, Reason: reason, Message: "SPOKEN", Details: &metav1.StatusDetails{Causes: causes},
		}})
	}
	for name, c := range map[string]struct {
		err  error
		want string // empty for no refusal
	}{
		"a variable twice":       {of(500, "", metav1.StatusCause{Type: "DuplicateEntries", Field: ".spec.env"}), "Error (500, .spec.env DuplicateEntries)"},
		"a namespace":            {of(404, metav1.StatusReasonNotFound), "NotFound (404)"},
		"the size limit of etcd": {of(500, metav1.StatusReasonUnknown, metav1.StatusCause{Type: "TooLargeForEtcd"}), "Error (500, TooLargeForEtcd)"},
		"a quota":                {of(403, metav1.StatusReasonForbidden), "Forbidden (403)"},
		"a webhook's time-out":   {of(500, metav1.StatusReasonInternalError), "InternalError (500)"},
		"a conflict":             {of(409, metav1.StatusReasonConflict), ""},
		"a time-out":             {of(504, metav1.StatusReasonTimeout), ""},
		"a server's time-out":    {of(500, metav1.StatusReasonServerTimeout), ""},
		"too many requests":      {of(429, metav1.StatusReasonTooManyRequests), ""},
		"no connection":          {errors.New("SPOKEN"), ""},
	} {
		if got, refused := objects.Refusal(c.err); got != c.want || refused != (c.want != "") {
			t.Errorf("%s: got %q, %t", name, got, refused)
		}
	}
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")
	if !objects.LacksNamespace(fmt.Errorf("write: %w", missing)) || objects.LacksNamespace(apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")) {
		t.Error("a missing Namespace is not recognized")
	}
}

// The name of an event is one, also if the name of the object leaves no place for the digest.
func TestEventName(t *testing.T) {
	t.Parallel()
	for about, want := range map[string]string{
		"web": "web.0123456789abcdef", strings.Repeat("n", 253): strings.Repeat("n", 236) + ".0123456789abcdef",
		strings.Repeat("n", 235) + ".n" + strings.Repeat("n", 10): strings.Repeat("n", 235) + ".0123456789abcdef",
	} {
		if got := objects.EventName(about, "0123456789abcdef"); got != want {
			t.Errorf("got %s of %d characters", got, len(got))
		}
	}
}
