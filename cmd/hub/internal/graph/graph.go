// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"
)

// Graph has the constructors of an App, in the order in which they were given to fx.
type Graph struct {
	Title     string
	Functions []*Function
}

// Function makes values of some types.
type Function struct {
	// Module is empty for the App's own.
	Module, Name string
	// Location is where a constructor was given to fx.
	Location string
	// Types are the types of its results, and Needs its parameters.
	Types []string
	Needs []Need

	private bool // its values are for its module only
}

// Need is a parameter of a constructor.
type Need struct {
	Type     string
	Optional bool
}

// errSeen ends the App when everything is known that is wanted.
var errSeen = errors.New("the graph is known")

// Of returns the graph of the App with these options. An error means that fx did not accept the options.
func Of(title string, options fx.Option) (*Graph, error) {
	var dot fx.DotGraph
	var seen recorder
	first := fx.Module("graph", fx.Invoke(func(g fx.DotGraph) error { // fx sends all its events before it invokes this
		dot = g
		return errSeen
	}))
	err := fx.New(first, options, fx.WithLogger(func() fxevent.Logger { return &seen })).Err()
	if !errors.Is(err, errSeen) {
		return nil, fmt.Errorf("take in the options of the %s: %w", title, err)
	}
	needs := needsIn(string(dot))
	for _, c := range seen {
		if all := needs[keyOf(c.Types)]; len(all) > 0 {
			c.Needs, needs[keyOf(c.Types)] = all[0], all[1:]
		}
	}
	return &Graph{Title: title, Functions: seen}, nil
}

// recorder records the provided constructors.
type recorder []*Function

// LogEvent implements fxevent.Logger.
func (r *recorder) LogEvent(event fxevent.Event) {
	switch e := event.(type) {
	case *fxevent.Provided:
		r.add(&Function{Module: e.ModuleName, Name: shortName(e.ConstructorName), private: e.Private}, e.StackTrace, e.OutputTypeNames)
	case *fxevent.Supplied:
		r.add(&Function{Module: e.ModuleName, Name: "fx.Supply"}, e.StackTrace, []string{e.TypeName})
	}
}

// add leaves out the types that fx itself provides to every App.
func (r *recorder) add(f *Function, stack, types []string) {
	if len(types) == 1 && strings.HasPrefix(types[0], "fx.") {
		return
	}
	if len(stack) > 0 {
		f.Location = stack[0]
	}
	for _, one := range types {
		f.Types = append(f.Types, normalType(one))
	}
	*r = append(*r, f)
}

// Join adds the graph of the App of a hub part, without the types that this App itself provides: the graph of the hub
// contains them already.
func (g *Graph) Join(part *Graph) {
	for _, f := range part.Functions {
		if f.Module != "" {
			g.Functions = append(g.Functions, f)
		}
	}
}

// Needing returns the constructors that need a type that an error of fx.ValidateApp names as missing.
func (g *Graph) Needing(err error) []*Function {
	types := missingIn(err.Error())
	var all []*Function
	for _, f := range g.Functions {
		if slices.ContainsFunc(f.Needs, func(n Need) bool { return slices.Contains(types, n.Type) }) {
			all = append(all, f)
		}
	}
	return all
}

// What fx prints.
var (
	longPath  = regexp.MustCompile(`[\w.~-]+(?:/[\w.~-]+)*/`)
	drawn     = regexp.MustCompile(`^(?:constructor_\d+ -> )?("(?:[^"\\]|\\.)*") \[(.*)\];$`)
	tag       = regexp.MustCompile(`\[(name|group) ?= ?"?([^\]"]*)"?\]`)
	groupNode = regexp.MustCompile(`^\[type=(.*) group=(.*)\]$`)
	groupItem = regexp.MustCompile(`(\[group=[^\]]*\])\d+$`)
	missing   = regexp.MustCompile(`missing types?: (.*)$`)
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
