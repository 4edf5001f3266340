// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/version"
)

func TestSkew(t *testing.T) {
	t.Parallel()
	for found, want := range map[string]struct {
		level Level
		text  string
	}{
		"v1.29.15": {Warning, "older than v1.30"}, "v1.30.14": {OK, "v1.30.14"}, "v1.37.2-gke.100": {OK, "v1.37.2-gke.100"},
		"v1.38.0": {Warning, "newer than v1.37"}, "unknown": {Warning, "not a known version"},
	} {
		var r Report
		skew(version.Info{GitVersion: found}, &r)
		if len(r) != 1 || r[0].Level != want.level || !strings.Contains(r[0].Text, want.text) {
			t.Errorf("%s: got %+v, want %s with %q", found, r, want.level, want.text)
		}
	}
}
