// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// calledFunctions are the places where the registry calls a function of a module, each with the test which shows that a
// panic of the function ends only the module's app or hub part. Tests of other packages are named with their folder.
func calledFunctions() map[string]string {
	return map[string]string{
		"hub part: invoke, start hook, runnable":                        "TestHubParts_FailAlone",
		"hub part: function given to Follow, mapping of Source":         "TestHubParts_FailAlone",
		"hub part: map function, as any handler of an informer":         "TestHubParts_FailAlone",
		"hub part: handler in the cache of a remote":                    "TestHubParts_FailAlone",
		"hub part: supervised reconciler":                               "TestHubParts_FailAlone",
		"hub part: Select, Predicates, Map and Indexes of watch":        "watch/TestRemotes_PanicsEndTheHubPart",
		"hub part: queue of a controller, for its length":               "liveness/TestMonitor_QueueOfAModule",
		"hub part: all of the above in a whole hub":                     "../cmd/hub/app/TestRun_WorksWithoutAHubPart",
		"app: constructor, invoke, hook, runnable, handler, and others": "TestContain_Panics",
		"app: metrics collector":                                        "internal/contain/TestCollector_MetricsThatCallTheModule",
		"app: transform of a cache filter":                              "TestCacheFilter_TransformPanics",
		"app: supervised reconciler":                                    "TestSupervise_NothingButPanics",
		"Each: function":                                                "TestEach",
		"middleware: Select, Transport":                                 "TestMiddlewareSet_Wrap_Broken",
		"middleware: Client":                                            "TestMiddlewareSet_Limits",
	}
}

// The tests in the table exist.
func TestCalledFunctions(t *testing.T) {
	t.Parallel()
	for what, test := range calledFunctions() {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(test), "*_test.go"))
		must(t, err)
		found := false
		for _, file := range files {
			text := testkit.Read(t, file)
			found = found || strings.Contains(text, "\nfunc "+filepath.Base(test)+"(")
		}
		if !found {
			t.Errorf("%s: test %s does not exist", what, test)
		}
	}
}
