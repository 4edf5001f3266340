// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"slices"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/graph/internal/drawing"
)

// legend explains a picture.
const legend = "Round: called when the App is built. Dashed: can do without."

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
		d.Boxes = append(d.Boxes, drawing.Box{Group: group(c.Module), Title: c.title(), Lines: c.Types})
	}
	for _, i := range g.Invokes {
		d.Boxes = append(d.Boxes, drawing.Box{
			Group: group(i.Module), Title: i.title(), Style: drawing.Round, Last: true,
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

// arrowsTo returns the arrows for the needs of the function of a box: one from each box, which begins at the needed type
// if it is the only one.
func (g *Graph) arrowsTo(to int, module string, needs []Need) []drawing.Arrow {
	var all []drawing.Arrow
	for _, need := range needs {
		for _, maker := range g.makers(need.Type, module) {
			one := drawing.Arrow{
				From: slices.Index(g.Constructors, maker), To: to, Line: slices.Index(maker.Types, need.Type), Dashed: need.Optional,
			}
			i := slices.IndexFunc(all, func(a drawing.Arrow) bool { return a.From == one.From })
			if i < 0 {
				all = append(all, one)
				continue
			}
			if all[i].Line != one.Line {
				all[i].Line = -1
			}
			all[i].Dashed = all[i].Dashed && one.Dashed
		}
		if i := slices.Index(g.Missing, need.Type); i >= 0 {
			all = append(all, drawing.Arrow{From: len(g.Constructors) + len(g.Invokes) + i, To: to, Line: -1})
		}
	}
	return all
}
