// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"testing"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/yamlfile"
)

// An error has the line of its field, or of the nearest parent if the field does not exist.
func TestFile_At(t *testing.T) {
	t.Parallel()
	file, err := yamlfile.Parse("a.yaml", []byte("a:\n  b: 1\nc:\n- d: 2\n-\n  e: &x {f: 3}\n  g: *x\n"))
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"": "a.yaml:1: no", "a": "a.yaml:1: no", "a.b": "a.yaml:2: no", "a.missing.field": "a.yaml:1: no",
		"c[0].d": "a.yaml:4: no", "c[1].e.f": "a.yaml:6: no", "c[1].g.f": "a.yaml:7: no", "c[7]": "a.yaml:3: no",
	} {
		if got := file.At(field, errors.New("no")).Error(); got != want {
			t.Errorf("%q: %s, want %s", field, got, want)
		}
	}
}

// Check returns problems in the order of their lines.
func TestFile_Check(t *testing.T) {
	t.Parallel()
	file, err := yamlfile.Parse("a.yaml", []byte("z: 1\nlist: 2\nnames: {a: [1]}\ny: 1\nto: {b: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	err = file.Check(struct {
		List  []string          `json:"list"`
		Names map[string]string `json:"names"`
		To    *struct {
			A string `json:"a"`
		} `json:"to"`
	}{})
	want := "a.yaml:1: z: there is no such field; use list, names, to\na.yaml:2: list: use a list here\n" +
		"a.yaml:3: names.a: use one value here\na.yaml:4: y: there is no such field; use list, names, to\n" +
		"a.yaml:5: to.b: there is no such field; use a"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want\n%s", err, want)
	}
}
