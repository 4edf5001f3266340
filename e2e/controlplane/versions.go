// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A file of this folder has the modules of one more version of kube-apiserver: versions/1.31.mod, with versions/1.31.sum.
const versionsDir = "versions"

// kind is a version of kube-apiserver, with the go.mod that it is built by; empty for go.mod itself.
type kind struct{ minor, modfile string }

// kinds are the versions for the arguments of the program, which are minors such as 1.31, or all.
func kinds(args []string) ([]kind, error) {
	files, err := filepath.Glob(filepath.Join(versionsDir, "*.mod"))
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	var minors []string
	for _, file := range files {
		minor := strings.TrimSuffix(filepath.Base(file), ".mod")
		known[minor] = filepath.Join(versionsDir, filepath.Base(file))
		minors = append(minors, minor)
	}
	if slices.Equal(args, []string{"all"}) {
		args = minors
	}
	var found []kind
	for _, arg := range args {
		parts := strings.Split(strings.TrimPrefix(arg, "v"), ".")
		minor := strings.Join(parts[:min(2, len(parts))], ".")
		modfile, ok := known[minor]
		if !ok && minor != pinnedMinor {
			return nil, fmt.Errorf("KUBERNETES=%s: there are %s, and %s in any case", arg, strings.Join(minors, ", "), pinnedMinor)
		}
		if ok {
			found = append(found, kind{minor, modfile})
		}
	}
	return found, nil
}

// pinnedMinor is that of go.mod, whose programs are built in any case.
const pinnedMinor = "1.36"
