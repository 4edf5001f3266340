// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What fx prints.
var (
	longPath  = regexp.MustCompile(`[\w.~-]+(?:/[\w.~-]+)*/`)
	drawn     = regexp.MustCompile(`^(?:constructor_\d+ -> )?("(?:[^"\\]|\\.)*") \[(.*)\];$`)
	tag       = regexp.MustCompile(`\[(name|group) ?= ?"?([^\]"]*)"?\]`)
	groupNode = regexp.MustCompile(`^\[type=(.*) group=(.*)\]$`)
	groupItem = regexp.MustCompile(`(\[group=[^\]]*\])\d+$`)
	// token is a string, the name of a function with its bracket, or a closing bracket.
	token   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[^\s,()"\[]+(?:\(\*?\w+\)[^\s,()"]*)?(?:\[\.\.\.\][^\s,()"]*)?\(|\)`)
	missing = regexp.MustCompile(`missing types?: (.*)$`)
)

// shortName cuts the path of the package from the name of a function, and fx.Annotate.
func shortName(name string) string {
	name = longPath.ReplaceAllString(name, "")
	if inner, annotated := strings.CutPrefix(name, "fx.Annotate("); annotated {
		name, _, _ = strings.Cut(inner, ",")
	}
	return name
}

// normalType writes a type with its name or group in one way, where fx has three.
func normalType(text string) string {
	text = strings.ReplaceAll(text, "internal.EventRecorder", "events.EventRecorder") // its name is an alias
	if found := groupNode.FindStringSubmatch(text); found != nil {
		return found[1] + "[group=" + found[2] + "]"
	}
	return groupItem.ReplaceAllString(tag.ReplaceAllString(text, "[$1=$2]"), "$1")
}

func keyOf(types []string) string { return strings.Join(slices.Sorted(slices.Values(types)), ";") }

// needsIn returns the needs of the constructors in fx's graph, by the types that they make. The graph has a subgraph for each
// constructor with its types, and then its arrows.
func needsIn(dot string) map[string][][]Need {
	all := map[string][][]Need{}
	for _, one := range strings.Split(dot, "subgraph ")[1:] {
		var types []string
		var needs []Need
		for line := range strings.Lines(one) {
			line = strings.TrimSpace(line)
			found := drawn.FindStringSubmatch(line)
			switch {
			case found == nil:
			case strings.HasPrefix(line, "constructor_"):
				needs = append(needs, Need{Type: drawnType(found[1]), Optional: strings.Contains(found[2], "style=dashed")})
			default:
				types = append(types, drawnType(found[1]))
			}
		}
		all[keyOf(types)] = append(all[keyOf(types)], needs)
	}
	return all
}

func drawnType(quoted string) string {
	if plain, err := strconv.Unquote(quoted); err == nil {
		quoted = plain
	}
	return normalType(quoted)
}

// invokedIn returns the invoked functions in the text that an option prints of itself, such as
// fx.Module("a", fx.Provide(x()), fx.Invoke(y(), fx.Annotate(z(), fx.ParamTags(["b"])))).
func invokedIn(text string) []*Function {
	const invoke, annotated = "fx.Invoke(", "annotated"
	type call struct{ name, module string }
	var all []*Function
	open := []call{{}} // the calls around a token
	for _, word := range token.FindAllString(text, -1) {
		around := &open[len(open)-1]
		inner := call{word, around.module}
		switch {
		case word == ")":
			open = open[:max(1, len(open)-1)]
			continue
		case word[0] == '"':
			if around.name == "fx.Module(" {
				around.module, _ = strconv.Unquote(word)
			}
			continue
		case around.name == invoke && word == "fx.Annotate(":
			inner.name = annotated
		case around.name == invoke, around.name == annotated:
			all = append(all, &Function{Module: around.module, Name: shortName(word) + ")", invoked: true})
			if around.name == annotated {
				around.name = "" // what follows are annotations
			}
		}
		open = append(open, inner)
	}
	return all
}

// missingIn returns the types that an error of fx.ValidateApp names.
func missingIn(text string) []string {
	var types []string
	if found := missing.FindStringSubmatch(strings.TrimSpace(text)); found != nil {
		for one := range strings.SplitSeq(found[1], ";") {
			one, _, _ = strings.Cut(strings.TrimSpace(one), " (did you mean")
			types = append(types, normalType(one))
		}
	}
	return types
}
