// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The output of fx.
var (
	longPath  = regexp.MustCompile(`[\w.~-]+(?:/[\w.~-]+)*/`)
	drawnType = regexp.MustCompile(`^"((?:[^"\\]|\\.)*)" \[`)
	drawnNeed = regexp.MustCompile(`^constructor_\d+ -> ("(?:[^"\\]|\\.)*") \[(.*)\];$`)
	tag       = regexp.MustCompile(`\[(name|group) ?= ?"?([^\]"]*)"?\]`)
	groupNode = regexp.MustCompile(`^\[type=(.*) group=(.*)\]$`)
	groupItem = regexp.MustCompile(`(\[group=[^\]]*\])\d+$`)
)

// drawnConstructor is a constructor in fx's graph.
type drawnConstructor struct {
	types []string
	needs []Need
}

func (d drawnConstructor) key() string {
	return strings.Join(slices.Sorted(slices.Values(d.types)), ";")
}

// parseDOT reads fx's graph: a subgraph for each constructor with its types, and its arrows after it.
func parseDOT(text string) []drawnConstructor {
	var all []drawnConstructor
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "subgraph cluster_"):
			all, inside = append(all, drawnConstructor{}), true
		case line == "}":
			inside = false
		case len(all) == 0:
		case inside:
			if found := drawnType.FindStringSubmatch(line); found != nil {
				last := &all[len(all)-1]
				last.types = append(last.types, normalType(unquote(`"`+found[1]+`"`)))
			}
		default:
			if found := drawnNeed.FindStringSubmatch(line); found != nil {
				last := &all[len(all)-1]
				last.needs = append(last.needs, Need{
					Type: normalType(unquote(found[1])), Optional: strings.Contains(found[2], "style=dashed"),
				})
			}
		}
	}
	return all
}

func unquote(text string) string {
	if plain, err := strconv.Unquote(text); err == nil {
		return plain
	}
	return text
}

// normalType writes a type with its name or group in one way, where fx has three, and by the name that authors know.
func normalType(text string) string {
	text = authorType(text)
	if found := groupNode.FindStringSubmatch(text); found != nil {
		return found[1] + "[group=" + found[2] + "]"
	}
	text = tag.ReplaceAllString(text, "[$1=$2]")
	return groupItem.ReplaceAllString(text, "$1")
}

func normal(types []string) []string {
	all := make([]string, 0, len(types))
	for _, one := range types {
		all = append(all, normalType(one))
	}
	return all
}

// scope is a module whose options are being read, and how deep in brackets it began.
type scope struct {
	module string
	depth  int
}

// invokesOf finds the invoked functions in the text that an option prints of itself, such as
// fx.Module("a", fx.Provide(x()), fx.Invoke(y(), z())).
func invokesOf(text string) []Invoke {
	const invoke, module = "fx.Invoke(", "fx.Module("
	var found []Invoke
	scopes, depth := []scope{{}}, 0
	for i := 0; i < len(text); {
		switch rest := text[i:]; {
		case strings.HasPrefix(rest, module):
			name, err := strconv.QuotedPrefix(rest[len(module):])
			if err != nil {
				return found
			}
			depth++
			scopes = append(scopes, scope{unquote(name), depth})
			i += len(module) + len(name)
			continue
		case strings.HasPrefix(rest, invoke):
			inner := bracketed(rest[len(invoke):])
			for _, name := range arguments(inner) {
				found = append(found, Invoke{Module: scopes[len(scopes)-1].module, Name: shortName(name)})
			}
			i += len(invoke) + len(inner) + 1
			continue
		case text[i] == '(':
			depth++
		case text[i] == ')':
			if last := scopes[len(scopes)-1]; last.depth == depth && len(scopes) > 1 {
				scopes = scopes[:len(scopes)-1]
			}
			depth--
		}
		i++
	}
	return found
}

// bracketed returns the text up to the bracket that closes it.
func bracketed(text string) string {
	depth := 0
	for i, char := range text {
		switch char {
		case '(':
			depth++
		case ')':
			if depth == 0 {
				return text[:i]
			}
			depth--
		}
	}
	return text
}

// arguments splits a text at the commas that are in no brackets.
func arguments(text string) []string {
	var all []string
	depth, begin := 0, 0
	for i, char := range text {
		switch char {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ',':
			if depth == 0 {
				all, begin = append(all, strings.TrimSpace(text[begin:i])), i+1
			}
		}
	}
	if last := strings.TrimSpace(text[begin:]); last != "" {
		all = append(all, last)
	}
	return all
}
