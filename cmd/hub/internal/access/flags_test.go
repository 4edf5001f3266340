// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	"github.com/spf13/pflag"
)

// Again returns the flags with which another command reaches the same cluster.
func TestFlags_Again(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"":                                   nil,
		" --context edge":                    {"--context", "edge"},
		" --kubeconfig /tmp/k --context one": {"--context=one", "--kubeconfig=/tmp/k"},
	} {
		var f Flags
		set := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.Bind(set)
		if err := set.Parse(args); err != nil {
			t.Fatal(err)
		}
		if got := f.Again(); got != want {
			t.Errorf("%v: %q, want %q", args, got, want)
		}
	}
}
