// SPDX-License-Identifier: Apache-2.0

package fieldset

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
)

// Hash returns 16 hex digits of a hash of the paths of all fields of an object. Values make no difference, and of a list only
// the length and the paths in its elements.
func Hash(desired map[string]any) string {
	sum := sha256.Sum256(appendShape(nil, desired))
	return hex.EncodeToString(sum[:8])
}

// appendShape appends the shape of a value. The number of entries precedes them, and the length of a key precedes the key, so
// that no content of a key is taken for a deeper path.
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
