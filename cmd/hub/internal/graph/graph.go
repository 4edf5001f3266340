// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"
)

// Graph has the constructors and invokes of an App.
type Graph struct {
	// Title says which App it is.
	Title string `json:"title"`
	// Constructors are in the order in which they were given to fx.
	Constructors []*Constructor `json:"constructors"`
	// Invokes are the functions that the App calls when it is built.
	Invokes []Invoke `json:"invokes"`
	// Missing are types that functions need and no constructor makes, except for types of optional parameters.
	Missing []string `json:"missing,omitempty"`
}

// Constructor makes values of some types.
type Constructor struct {
	// Module is empty for the App's own.
	Module string `json:"module,omitempty"`
	Name   string `json:"name"`
	// Location is where it was given to fx.
	Location string `json:"location,omitempty"`
	// Private values are for their module only.
	Private bool `json:"private,omitempty"`
	// Types are the types of its results, and Needs its parameters.
	Types []string `json:"types"`
	Needs []Need   `json:"needs,omitempty"`
}

// Need is a parameter of a constructor.
type Need struct {
	Type     string `json:"type"`
	Optional bool   `json:"optional,omitempty"`
}

// Invoke is a function that the App calls.
type Invoke struct {
	Module string `json:"module,omitempty"`
	Name   string `json:"name"`
	// Needs are its parameters.
	Needs []Need `json:"needs,omitempty"`
	// Location is where the function is.
	Location string `json:"location,omitempty"`
}

// errSeen ends the App when everything is known that is wanted.
var errSeen = errors.New("the graph is known")

// Of returns the graph of the App with these options. It calls none of their functions. An error means that
// fx did not accept the options.
func Of(title string, options ...fx.Option) (*Graph, error) {
	var dot fx.DotGraph
	seen := &recorder{}
	all := append([]fx.Option{
		fx.Module("graph", fx.Invoke(func(g fx.DotGraph) error {
			dot = g
			return errSeen
		})),
	}, options...)
	all = append(all, fx.WithLogger(func() fxevent.Logger { return seen }))
	if err := fx.New(all...).Err(); !errors.Is(err, errSeen) {
		if seen.refused != "" {
			return nil, fmt.Errorf("take in the options of the %s: module %s: %w", title, seen.refused, err)
		}
		return nil, fmt.Errorf("take in the options of the %s: %w", title, err)
	}
	g := &Graph{Title: title, Constructors: seen.constructors}
	for _, option := range options {
		g.Invokes = append(g.Invokes, invoked(option)...)
	}
	g.connect(parseDOT(string(dot)))
	g.Missing = g.missing()
	return g, nil
}

// recorder records the provided constructors.
type recorder struct {
	constructors []*Constructor
	refused      string // the first module of which fx did not accept something
}

// LogEvent implements fxevent.Logger.
func (r *recorder) LogEvent(event fxevent.Event) {
	switch e := event.(type) {
	case *fxevent.Provided:
		if e.Err != nil {
			r.refused = cmp.Or(r.refused, e.ModuleName)
		}
		r.add(&Constructor{
			Module: e.ModuleName, Name: shortName(e.ConstructorName), Location: locationOf(e.StackTrace),
			Private: e.Private, Types: normal(e.OutputTypeNames),
		})
	case *fxevent.Supplied:
		r.add(&Constructor{
			Module: e.ModuleName, Name: "fx.Supply", Location: locationOf(e.StackTrace), Types: normal([]string{e.TypeName}),
		})
	}
}

// add leaves out the types that fx itself provides to every App.
func (r *recorder) add(c *Constructor) {
	own := len(c.Types) == 1 && slices.Contains([]string{"fx.Lifecycle", "fx.Shutdowner", "fx.DotGraph"}, c.Types[0])
	if !own {
		r.constructors = append(r.constructors, c)
	}
}

// locationOf returns the first line of a stack.
func locationOf(stack []string) string {
	if len(stack) == 0 {
		return ""
	}
	return stack[0]
}

// shortName cuts the path of the package from the name of a function.
func shortName(name string) string {
	return longPath.ReplaceAllString(name, "")
}

// connect joins the events of fx with its graph.
func (g *Graph) connect(drawn []drawnConstructor) {
	byTypes := map[string][]drawnConstructor{}
	for _, d := range drawn {
		byTypes[d.key()] = append(byTypes[d.key()], d)
	}
	for _, c := range g.Constructors {
		key := strings.Join(slices.Sorted(slices.Values(c.Types)), ";")
		if same := byTypes[key]; len(same) > 0 {
			c.Needs, byTypes[key] = same[0].needs, same[1:]
		}
	}
}

// makers returns the constructors of a type for a module. Private values take precedence.
func (g *Graph) makers(kind, module string) []*Constructor {
	var public, private []*Constructor
	for _, c := range g.Constructors {
		switch {
		case !slices.Contains(c.Types, kind):
		case !c.Private:
			public = append(public, c)
		case c.Module == module:
			private = append(private, c)
		}
	}
	if len(private) > 0 {
		return private
	}
	return public
}

// missing returns the types that no constructor makes. A group may be empty.
func (g *Graph) missing() []string {
	var missing []string
	look := func(module string, needs []Need) {
		for _, need := range needs {
			fxs := strings.HasPrefix(need.Type, "fx.") // fx's own are left out
			if need.Optional || fxs || strings.Contains(need.Type, "[group=") || len(g.makers(need.Type, module)) > 0 {
				continue
			}
			missing = append(missing, need.Type)
		}
	}
	for _, c := range g.Constructors {
		look(c.Module, c.Needs)
	}
	for _, i := range g.Invokes {
		look(i.Module, i.Needs)
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// Provided removes types that another App provides from the missing ones.
func (g *Graph) Provided(types []string) {
	g.Missing = slices.DeleteFunc(g.Missing, func(kind string) bool { return slices.Contains(types, kind) })
}

// Join adds the graph of the App of a hub part, without the types that this App itself provides: the graph of the hub
// contains them already.
func (g *Graph) Join(part *Graph) {
	for _, c := range part.Constructors {
		if c.Module != "" {
			g.Constructors = append(g.Constructors, c)
		}
	}
	for _, i := range part.Invokes {
		if i.Module != "" {
			g.Invokes = append(g.Invokes, i)
		}
	}
	g.Missing = slices.Compact(slices.Sorted(slices.Values(append(g.Missing, part.Missing...))))
}

// Needed returns the parameters of the constructors of a type, sorted.
func (g *Graph) Needed(kind string) []string {
	var all []string
	for _, c := range g.Constructors {
		if !slices.Contains(c.Types, kind) {
			continue
		}
		for _, need := range c.Needs {
			all = append(all, need.Type)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Needing returns the constructors that need at least one of the types, also as an optional parameter.
func (g *Graph) Needing(types []string) []*Constructor {
	var all []*Constructor
	for _, c := range g.Constructors {
		if needsOne(c.Needs, types) {
			all = append(all, c)
		}
	}
	return all
}

func needsOne(needs []Need, types []string) bool {
	return slices.ContainsFunc(needs, func(n Need) bool { return slices.Contains(types, n.Type) })
}

// Invoking returns the module that invokes a function that needs at least one of the types, or nothing if no module does. The
// function is named as in a Problem.
func (g *Graph) Invoking(function string, types []string) string {
	for _, i := range g.Invokes {
		if plainName(i.Name) == shortName(function)+"()" && needsOne(i.Needs, types) {
			return i.Module
		}
	}
	return ""
}
