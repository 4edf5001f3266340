// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"
)

// Graph has the functions of an App: the constructors in the order in which they were given to fx, and then the invoked
// functions.
type Graph struct {
	Title     string
	Functions []*Function
}

// Function makes values of some types, or is invoked when the App is built.
type Function struct {
	// Module is empty for the App's own.
	Module, Name string
	// Location is where a constructor was given to fx.
	Location string
	// Types are the types of its results, and Needs its parameters.
	Types []string
	Needs []Need

	invoked bool // has neither Types nor Needs
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
	return &Graph{Title: title, Functions: append(seen, invokedIn(options.String())...)}, nil
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
