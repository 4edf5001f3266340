// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"slices"
	"strings"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/drawing"
)

// legend explains what is not plain in a picture.
const legend = "Round: called when the App is built. Dashed: can do without. A time is that of the function alone."

// svg returns a picture of the graph.
func (g *Graph) svg() string {
	d := drawing.Drawing{Title: g.Title, Note: legend}
	group := func(module string) string {
		if module == "" {
			return ""
		}
		return "module " + module
	}
	for _, c := range g.Constructors {
		d.Boxes = append(d.Boxes, drawing.Box{Group: group(c.Module), Title: plainName(c.Name), Badge: c.Took.String(), Lines: c.Types})
	}
	for _, i := range g.Invokes {
		d.Boxes = append(d.Boxes, drawing.Box{
			Group: group(i.Module), Title: plainName(i.Name), Badge: i.Took.String(), Style: drawing.Round, Last: true,
		})
	}
	for _, kind := range g.Missing {
		d.Boxes = append(d.Boxes, drawing.Box{Group: "missing", Title: kind, Style: drawing.Wrong})
	}
	for to, c := range g.Constructors {
		d.Arrows = append(d.Arrows, g.arrowsTo(to, c.Module, c.Needs)...)
	}
	for to, i := range g.Invokes {
		d.Arrows = append(d.Arrows, g.arrowsTo(len(g.Constructors)+to, i.Module, i.Needs)...)
	}
	return d.SVG()
}

// arrowsTo returns the arrows for what the function of a box needs.
func (g *Graph) arrowsTo(to int, module string, needs []Need) []drawing.Arrow {
	var all []drawing.Arrow
	for _, need := range needs {
		for _, maker := range g.makers(need.Type, module) {
			all = append(all, drawing.Arrow{
				From: slices.Index(g.Constructors, maker), To: to, Line: slices.Index(maker.Types, need.Type), Dashed: need.Optional,
			})
		}
		if i := slices.Index(g.Missing, need.Type); i >= 0 {
			all = append(all, drawing.Arrow{From: len(g.Constructors) + len(g.Invokes) + i, To: to, Line: -1})
		}
	}
	return all
}

// plainName returns the name of the function that fx.Annotate has wrapped.
func plainName(name string) string {
	if inner, annotated := strings.CutPrefix(name, "fx.Annotate("); annotated {
		name, _, _ = strings.Cut(inner, ",")
	}
	return name
}
