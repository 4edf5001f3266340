// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"net/http"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// The options of a delete are read as the API server reads them: it ignores a field whose name has other capitals, and so
// deletes what looks like a dry run.
func TestOptionsOf(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		"":                   false,
		`{"dryRun":["All"]}`: true,
		`{"DryRun":["All"]}`: false,
		`{"dryRun":[]}`:      false,
		`{"kind":"DeleteOptions","dryrun":["All"]}`: false,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "https://192.0.2.1/api/v1/pods/x", strings.NewReader(body))
		must(t, err)
		options, err := optionsOf(r, deletesOne)
		if err != nil || isDryRun(options.DryRun) != want {
			t.Errorf("%q: got %+v, %v", body, options, err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "https://192.0.2.1/api/v1/pods/x", strings.NewReader("{"))
	must(t, err)
	testkit.ErrorIs(t, testkit.Err(optionsOf(r, deletesOne)), errOptions, "options that are no JSON")
}
