// SPDX-License-Identifier: Apache-2.0

package holds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Allowances are how many deletes a hold allows in all, by its id.
type Allowances map[string]int

const maxQuoted = 100

// ParseAllowances reads an annotation: id=number, separated by commas. It also returns an error for each part that it
// cannot read.
func ParseAllowances(value string) (Allowances, error) {
	all := Allowances{}
	if strings.TrimSpace(value) == "" {
		return all, nil
	}
	var problems []error
	for part := range strings.SplitSeq(value, ",") {
		id, number, found := strings.Cut(strings.TrimSpace(part), "=")
		objects, err := strconv.Atoi(number)
		if !found || err != nil || id == "" || objects < 1 {
			problems = append(problems, fmt.Errorf("%q is not an id, =, and a number of objects", part[:min(len(part), maxQuoted)]))
			continue
		}
		all[id] = objects
	}
	return all, errors.Join(problems...)
}

// String returns the value of the annotation.
func (a Allowances) String() string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(a)) {
		parts = append(parts, fmt.Sprintf("%s=%d", id, a[id]))
	}
	return strings.Join(parts, ",")
}
