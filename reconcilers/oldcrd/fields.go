// SPDX-License-Identifier: Apache-2.0

package oldcrd

import (
	"regexp"
	"slices"
	"strings"
)

var refusal = regexp.MustCompile(`((?:\.[A-Za-z0-9_-]+|\[(?:"(?:[^"\\]|\\.)*"|[^\]"])*\])+): field not declared in schema`)

// element matches what selects an element of a list.
var element = regexp.MustCompile(`\[(?:"(?:[^"\\]|\\.)*"|[^\]"])*\]`)

func refused(err error) []string {
	if err == nil {
		return nil
	}
	var paths []string
	for _, found := range refusal.FindAllStringSubmatch(err.Error(), -1) {
		paths = append(paths, element.ReplaceAllString(found[1], ""))
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// without also reaches into all elements of lists on the way.
func without(object any, path []string) {
	switch one := object.(type) {
	case []any:
		for _, each := range one {
			without(each, path)
		}
	case map[string]any:
		if len(path) == 1 {
			delete(one, path[0])
			return
		}
		without(one[path[0]], path[1:])
	}
}

func prune(object map[string]any, paths []string) {
	for _, path := range paths {
		without(object, strings.Split(strings.TrimPrefix(path, "."), "."))
	}
}
