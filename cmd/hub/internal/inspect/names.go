// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"strings"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// NamesOf returns the names of Clusters in arguments that are written as for kubectl: names, or
// cluster/NAME, after a word for the kind or without one.
func NamesOf(args []string) ([]string, error) {
	if len(args) > 1 && isKind(args[0]) {
		args = args[1:]
	}
	var names []string
	for _, arg := range args {
		kind, name, slash := strings.Cut(arg, "/")
		switch {
		case !slash:
			names = append(names, arg)
		case isKind(kind) && name != "":
			names = append(names, name)
		default:
			return nil, fmt.Errorf("%q is not a Cluster: write NAME or cluster/NAME", arg)
		}
	}
	return names, nil
}

func isKind(word string) bool {
	switch strings.ToLower(word) {
	case "cluster", "clusters", "fxc", "cluster." + hubv1.GroupName, "clusters." + hubv1.GroupName:
		return true
	}
	return false
}
