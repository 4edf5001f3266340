// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"regexp"
	"testing"

	"github.com/spf13/pflag"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The flags in the advice on conditions are flags of the hub.
func TestFlags_AdvisedExist(t *testing.T) {
	t.Parallel()
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	hubconfig.Bind(set, nil)
	flags := regexp.MustCompile(`--([a-z-]+)`)
	for _, kind := range []state.ProblemKind{
		state.ProblemIsHub, state.ProblemTooManyObjects, state.ProblemTooManyBytes, state.ProblemResponseTooLarge,
	} {
		advice := clusterstatus.WithAdvice("", state.Problem{Kind: kind})
		found := flags.FindAllStringSubmatch(advice, -1)
		if len(found) == 0 {
			t.Errorf("%s: %q names no flag", kind, advice)
		}
		for _, name := range found {
			if set.Lookup(name[1]) == nil {
				t.Errorf("%s: the hub has no flag --%s", kind, name[1])
			}
		}
	}
}
