// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"testing"
)

// WithAdvice makes one sentence of a message and its advice.
func TestWithAdvice(t *testing.T) {
	for message, want := range map[string]string{
		"it is wrong":  "it is wrong; repair it",
		"It is wrong.": "It is wrong; repair it",
	} {
		if got := WithAdvice(message, "repair it"); got != want {
			t.Errorf("%q and advice: %q, want %q", message, got, want)
		}
		if got := WithAdvice(message, ""); got != message {
			t.Errorf("%q without advice: %q", message, got)
		}
	}
	err := advised(fmt.Errorf("ask it: %w.", context.Canceled), "ask again")
	if want := "ask it: context canceled; ask again"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}
