// SPDX-License-Identifier: Apache-2.0

package drawing

import (
	"fmt"
	"html"
	"strings"
)

// sheet is how everything looks. Fonts of one width are as wide as charWidth says, or a little less.
const sheet = `<style>
text { font: 11px "DejaVu Sans Mono", Menlo, Consolas, "Courier New", monospace; fill: #1f2328; white-space: pre; }
.title { font-size: 15px; font-weight: bold; }
.group { fill: #57606a; font-weight: bold; }
.note, .type { fill: #57606a; }
.lane { fill: #f6f8fa; stroke: #d0d7de; }
.plain { fill: #ffffff; stroke: #57606a; }
.round { fill: #ddf4ff; stroke: #0969da; }
.wrong { fill: #ffebe9; stroke: #cf222e; }
path { fill: none; stroke: #57606a; }
.dashed { stroke-dasharray: 4 3; }
marker path { fill: #57606a; stroke: none; }
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>
`

// SVG returns the picture.
func (d Drawing) SVG() string {
	l := d.lay()
	var b pen
	width := max(l.width, float64(max(len(d.Note), len(d.Title)*3/2))*charWidth+2*margin)
	b.printf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n",
		width, l.height, width, l.height)
	b.printf("<title>%s</title>\n%s<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n", html.EscapeString(d.Title), sheet)
	b.text("title", margin, 20, d.Title)
	for _, one := range l.lanes {
		b.printf("<rect class=\"lane\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"4\"/>\n",
			margin, one.y, width-2*margin, one.h)
		if one.name != "" {
			b.text("group", margin+padding, one.y+laneTitle-4, one.name)
		}
	}
	for _, r := range l.routes {
		class := ""
		if r.Dashed {
			class = ` class="dashed"`
		}
		b.printf("<path%s d=\"%s\" marker-end=\"url(#head)\"/>\n", class, l.path(r))
	}
	for i, box := range d.Boxes {
		l.box(&b, box, l.items[i])
	}
	if d.Note != "" {
		b.text("note", margin, l.height-margin, d.Note)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// stop is a point that an arrow goes through, level.
type stop struct{ x, y float64 }

// stops are the points of an arrow: where it begins, the ends of the slots that it passes, and where it ends.
func (l *layout) stops(r *route) []stop {
	from := l.items[r.From]
	all := []stop{{from.x + from.w, l.exit(r)}}
	if edge := l.edge(from); edge > from.x+from.w {
		all = append(all, stop{edge, l.exit(r)}) // straight on as long as others of the column are beside it
	}
	for _, slot := range r.slots {
		all = append(all, stop{slot.x, slot.middle()}, stop{slot.x + slot.w, slot.middle()})
	}
	return append(all, stop{l.items[r.To].x, r.entry})
}

// edge returns where the column of an item ends.
func (l *layout) edge(of *item) float64 {
	edge := 0.0
	for _, lane := range l.lanes {
		for _, one := range lane.columns[of.column] {
			edge = max(edge, one.x+one.w)
		}
	}
	return edge
}

// path is the line of an arrow: level where it passes a column, and a curve between two of them.
func (l *layout) path(r *route) string {
	var b strings.Builder
	stops := l.stops(r)
	fmt.Fprintf(&b, "M%.1f %.1f", stops[0].x, stops[0].y)
	for i, next := range stops[1:] {
		last := stops[i]
		if last.y == next.y {
			fmt.Fprintf(&b, " L%.1f %.1f", next.x, next.y)
			continue
		}
		middle := (last.x + next.x) / 2
		fmt.Fprintf(&b, " C%.1f %.1f %.1f %.1f %.1f %.1f", middle, last.y, middle, next.y, next.x, next.y)
	}
	return b.String()
}

func (l *layout) box(b *pen, box Box, at *item) {
	style, radius := box.Style, 2
	if style == "" {
		style = Plain
	}
	if style == Round {
		radius = 12
	}
	whole := strings.Join(append([]string{box.Title}, box.Lines...), "\n")
	b.printf("<g><title>%s</title><rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\"/>\n",
		html.EscapeString(whole), style, at.x, at.y, at.w, at.h, radius)
	y := at.y + padding/2 + lineHeight - 4
	b.text("name", at.x+padding, y, cut(box.Title))
	for i, line := range box.Lines {
		b.text("type", at.x+padding, y+float64(i+1)*lineHeight, cut(line))
	}
	b.WriteString("</g>\n")
}

// pen writes the picture.
type pen struct{ strings.Builder }

func (w *pen) printf(format string, args ...any) { fmt.Fprintf(&w.Builder, format, args...) }

func (w *pen) text(class string, x, y float64, line string) {
	w.printf("<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, x, y, html.EscapeString(line))
}
