// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	"github.com/clusterfx/clusterfx/reconcilers/internal/fieldset"
)

func TestHash(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{`{data: {a: x}}`, `{data: {a: secret}}`, `{data: {a: 1}}`, `{data: {a: null}}`},
		{`{a: 1, b: {c: 1, d: 1}}`, `{b: {d: 2, c: 2}, a: 2}`},
		{`{a: [x, y]}`, `{a: [y, z]}`},
	} {
		for _, other := range same[1:] {
			if one, two := fieldset.Hash(object(t, same[0])), fieldset.Hash(object(t, other)); one != two || len(one) != 16 {
				t.Errorf("%s has the hash %s, and %s has %s", same[0], one, other, two)
			}
		}
	}
	hashes := map[string]string{}
	for _, text := range []string{
		`{}`, `{a: 1}`, `{b: 1}`, `{a: 1, b: 1}`, `{a: {}}`, `{a: []}`, `{a: [1]}`, `{a: [1, 1]}`, `{a: [[1], 1]}`, `{a: [[1, 1]]}`,
		`{a: [{}]}`, `{a: [{b: 1}]}`, `{a: {b: 1}}`, `{a: {b: {c: 1}}}`, `{a: {b: 1, c: 1}}`, `{a: {b: 1}, c: 1}`,
		// Keys that look like deeper paths, or like the text that is hashed.
		`{a.b: 1}`, `{a.b.c: 1}`, `{a: {b.c: 1}}`, `{a.b: {c: 1}}`, `{"a:{1,1:b": 1}`, `{"a:.,1:b": 1}`, `{"a[0]": 1}`, `{"": 1}`, `{"": {"": 1}}`,
		`{a/b: 1}`, `{"a\0b": 1}`,
	} {
		hash := fieldset.Hash(object(t, text))
		if other, taken := hashes[hash]; taken {
			t.Errorf("%s and %s have the hash %s", other, text, hash)
		}
		hashes[hash] = text
	}
	if got := fieldset.Hash(object(t, `{a: {b: [1]}}`)); got != "585ef6ee61eedba9" {
		t.Errorf("the hash has changed to %s: the first reconciliation after an update writes all copies", got)
	}
}
