// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"path/filepath"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestReadObjects(t *testing.T) {
	t.Parallel()
	if none, err := readObjects(""); err != nil || len(none) != 0 {
		t.Errorf("without a file: %v, %v", none, err)
	}
	const object = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
	for text, want := range map[string]string{
		object + "---\n# nothing\n---\n" + object: "",
		object + "---\nkind: Namespace\n":         "object 2 lacks",
		"apiVersion: v1\nkind: Namespace\n":       "lacks apiVersion, kind or metadata.name",
		"a: b: c\n":                               "read object 1: ",
		"- 1\n":                                   "read object 1: ",
	} {
		path := testkit.File(t, "objects.yaml", text)
		objects, err := readObjects(path)
		if want == "" {
			if err != nil || len(objects) != 2 {
				t.Errorf("%q: %d objects, %v", text, len(objects), err)
			}
			continue
		}
		testkit.ErrorHas(t, err, want, text)
	}
	if _, err := readObjects(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a file that does not exist is accepted")
	}
}
