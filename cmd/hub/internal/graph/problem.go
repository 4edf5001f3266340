// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"regexp"
	"strings"
)

// Problem is an error in a graph, as far as fx reports it.
type Problem struct {
	// Module is the module whose graph is wrong; empty if the problem is not in a single module.
	Module string
	// Types are the missing types.
	Types []string
	// Function is who needs them, and Location its file and line.
	Function, Location string
}

// ProblemOf reads an error of fx.ValidateApp. It returns false for an error that says none of this.
func ProblemOf(err error) (Problem, bool) {
	text := err.Error()
	missing := regexp.MustCompile(`missing types?: (.*)$`).FindStringSubmatch(strings.TrimSpace(text))
	if missing == nil {
		return Problem{}, false
	}
	var p Problem
	for one := range strings.SplitSeq(missing[1], ";") {
		one, _, _ = strings.Cut(strings.TrimSpace(one), " (did you mean")
		p.Types = append(p.Types, normalType(one))
	}
	if found := regexp.MustCompile(`module "([^"]+)"`).FindStringSubmatch(text); found != nil {
		p.Module = found[1]
	}
	// The last named function is the function that lacks a type. An annotated function has no name; then it is
	// the function that needs the result of the annotated one.
	functions := regexp.MustCompile(`function "([^"]+)"\.(\S+)\s+\(?(\S+:\d+)\)?`).FindAllStringSubmatch(text, -1)
	for _, f := range functions {
		if f[1] != "reflect" {
			p.Function, p.Location = f[1]+"."+f[2], f[3]
		}
	}
	return p, true
}
