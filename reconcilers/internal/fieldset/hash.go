// SPDX-License-Identifier: Apache-2.0

package fieldset

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
)

// Hash returns 16 hex digits for the paths of all fields. Values make no difference; of a list only its length and
// the paths within.
func Hash(desired map[string]any) string {
	sum := sha256.Sum256(appendShape(nil, desired))
	return hex.EncodeToString(sum[:8])
}

// appendShape writes the number of entries and the length of each key first, so that no key is taken for a deeper
// path.
func appendShape(shape []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		shape = strconv.AppendInt(append(shape, '{'), int64(len(v)), 10)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			shape = strconv.AppendInt(append(shape, ','), int64(len(key)), 10)
			shape = append(append(shape, ':'), key...)
			shape = appendShape(shape, v[key])
		}
	case []any:
		shape = strconv.AppendInt(append(shape, '['), int64(len(v)), 10)
		for _, one := range v {
			shape = appendShape(append(shape, ','), one)
		}
	default:
		shape = append(shape, '.')
	}
	return shape
}
