// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"slices"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// The hub's cluster has the first version, and the remotes have them in turn.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	o := &options{kubernetes: []string{"v1.30.14", "v1.37.2"}}
	got := []string{o.version(0), o.version(1), o.version(2), o.version(3)}
	if want := []string{"v1.30.14", "v1.30.14", "v1.37.2", "v1.30.14"}; !slices.Equal(got, want) {
		t.Errorf("hub and remotes have %v, want %v", got, want)
	}
	if (&options{}).version(1) != "" {
		t.Error("a version is chosen although none is given")
	}
}

// A version that is not in the table is refused with the table, and one that was not built with the command that builds it.
func TestKubernetes_Refused(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // No version has been built.
	for given, want := range map[string]string{
		"1.29": "use one of 1.30, 1.31,",
		"1.30": "v1.30.14 has not been built: run make controlplane KUBERNETES=1.30",
	} {
		testkit.ErrorHas(t, (&options{kubernetes: []string{given}}).findVersions(), want)
	}
}
