// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
)

// WithAdvice makes one sentence of a message and its advice.
func TestWithAdvice(t *testing.T) {
	for message, want := range map[string]string{
		"it is wrong":  "it is wrong; repair it",
		"It is wrong.": "It is wrong; repair it",
	} {
		if got := access.WithAdvice(message, "repair it"); got != want {
			t.Errorf("%q and advice: %q, want %q", message, got, want)
		}
		if got := access.WithAdvice(message, ""); got != message {
			t.Errorf("%q without advice: %q", message, got)
		}
	}
}
