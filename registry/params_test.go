// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"reflect"
	"testing"

	"github.com/clusterfx/clusterfx/registry"
)

// The names in struct tags equal the constants, which struct tags cannot use.
func TestRemote_TagsAreTheConstants(t *testing.T) {
	t.Parallel()
	fields := reflect.TypeFor[registry.Remote]()
	for field, want := range map[string]string{
		"HubClient": registry.ManageClient, "HubCache": registry.ManageCache, "APIReader": registry.APIReader,
	} {
		f, ok := fields.FieldByName(field)
		if got := f.Tag.Get("name"); !ok || got != want {
			t.Errorf("tag of %s: got %q, want %q", field, got, want)
		}
	}
}
