// SPDX-License-Identifier: Apache-2.0

/*
Package drawing draws a directed graph as an SVG picture.

# Usage

	picture := drawing.Drawing{Title: "hub", Boxes: boxes, Arrows: arrows}
	_, err := io.WriteString(w, picture.SVG())

# How it works

Time runs from left to right: a box is in a column right of all boxes that it has arrows from, and as close as possible to
the boxes that it has arrows to. Each group of boxes has a lane of its own, one below the other. In a column of a
lane boxes are stacked in an order in which their arrows cross little: each sweep sorts them by the mean place of
the boxes at the other ends of their arrows.

An arrow that passes a column takes a slot in the stack there, as if it were a flat box. So boxes never cover each
other, and no arrow runs across a box. An arrow begins at the line of its box that it is about, which is why it has no
text that could be in the way.

All text is in a font of one width, so that the size of a box follows from the number of its characters, whatever
shows the picture. Longer lines are cut; the whole text is shown when the mouse rests on it.

# Considerations

Graphviz as WebAssembly (github.com/goccy/go-graphviz v0.2.10) draws well. But it is compiled when a program starts that has
it, whether or not something is drawn: that took 0.3 to 0.7 s and 190 MB for each command, and for each hub. Running
dot would leave those without a picture who have no Graphviz.
*/
package drawing
