// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
)

// Again returns the flags with which another command reaches the same cluster.
func TestFlags_Again(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"":                                   nil,
		" --context edge":                    {"--context", "edge"},
		" --kubeconfig /tmp/k --context one": {"--context=one", "--kubeconfig=/tmp/k"},
	} {
		var f access.Flags
		set := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.Bind(set)
		must(t, set.Parse(args))
		if got := f.Again(); got != want {
			t.Errorf("%v: %q, want %q", args, got, want)
		}
	}
}
