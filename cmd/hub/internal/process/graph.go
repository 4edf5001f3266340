// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"
)

var errDrawn = errors.New("the graph is known")

// Draw returns fx's graph of the App with these options, with the modules and names of the constructors. It calls none of them. An
// error means that fx did not accept the options.
func Draw(what string, options fx.Option) (string, error) {
	var dot fx.DotGraph
	var makers constructors
	first := fx.Module("graph", fx.Invoke(func(g fx.DotGraph) error { // fx has taken in all constructors before it invokes this
		dot = g
		return errDrawn
	}))
	if err := fx.New(first, options, fx.WithLogger(func() fxevent.Logger { return &makers })).Err(); !errors.Is(err, errDrawn) {
		return "", fmt.Errorf("take in the options of the %s: %w", what, err)
	}
	return makers.name(string(dot)), nil
}

// constructors are what fx tells of them: in its graph, those with options have no names.
type constructors struct{ shared, private []constructor }

type constructor struct{ module, name string }

// LogEvent implements fxevent.Logger.
func (c *constructors) LogEvent(event fxevent.Event) {
	switch e := event.(type) {
	case *fxevent.Provided:
		name := e.ConstructorName
		if inner, annotated := strings.CutPrefix(name, "fx.Annotate("); annotated {
			name, _, _ = strings.Cut(inner, ",")
		}
		if one := (constructor{e.ModuleName, path.Base(name)}); e.Private {
			c.private = append(c.private, one)
		} else {
			c.shared = append(c.shared, one)
		}
	case *fxevent.Supplied:
		c.shared = append(c.shared, constructor{e.ModuleName, "fx.Supply"})
	}
}

// name writes the names into fx's graph, which has the constructors in the order of the events, then that of the logger, and last those
// whose values are for their module only.
func (c *constructors) name(dot string) string {
	loggers := len(dotMaker.FindAllString(dot, -1)) - len(c.shared) - len(c.private)
	all, i := slices.Concat(c.shared, make([]constructor, max(0, loggers)), c.private), -1
	return dotMaker.ReplaceAllStringFunc(dot, func(found string) string {
		if i++; i >= len(all) || all[i].name == "" {
			return found
		}
		label := map[bool]string{true: "module " + all[i].module}[all[i].module != ""]
		return fmt.Sprintf("subgraph cluster_%d {\n\t\tlabel = %q;\n\t\tconstructor_%d [shape=plaintext label=%q];", i, label, i, all[i].name)
	})
}

// dotMaker matches the begin of a constructor in fx's graph.
var dotMaker = regexp.MustCompile(`subgraph cluster_\d+ \{\n(?:\t\tlabel = .*;\n)?\t\tconstructor_\d+ \[shape=plaintext label=.*\];`)
