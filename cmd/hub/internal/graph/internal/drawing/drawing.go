// SPDX-License-Identifier: Apache-2.0

package drawing

import "unicode/utf8"

// Drawing is a graph to draw.
type Drawing struct {
	Title string
	// Note is a line below the picture. Default: none.
	Note   string
	Boxes  []Box
	Arrows []Arrow
}

// Style is how a box looks.
type Style string

// Styles of boxes.
const (
	// Plain is for most boxes.
	Plain Style = "plain"
	// Round is for functions that are called.
	Round Style = "round"
	// Wrong is for errors.
	Wrong Style = "wrong"
)

// Box is a node.
type Box struct {
	// Group is the lane that it is in. The lane without a name has no title.
	Group string
	// Title is its first line, and Lines are those below.
	Title string
	Lines []string
	// Style is how it looks. Default: Plain.
	Style Style
	// Last puts it into the rightmost column. Default: next to the boxes that it has arrows to.
	Last bool
}

// Arrow leads from one box to another.
type Arrow struct {
	// From and To are indices of Boxes.
	From, To int
	// Line is the index of the line of From at which it begins, or -1 for its title.
	Line int
	// Dashed is how it looks.
	Dashed bool
}

// Measures of the picture, in pixels.
const (
	charWidth  = 6.7 // of a font of 11 pixels in which all characters are 0.602 em wide
	lineHeight = 15
	padding    = 8
	rowGap     = 14
	slotHeight = 6
	columnGap  = 70
	laneGap    = 12
	laneTitle  = 20
	margin     = 16
	titleSpace = 30
)

// maxLine is how many characters of a line are shown.
const maxLine = 46

// cut shortens a line to its visible part.
func cut(text string) string {
	if utf8.RuneCountInString(text) <= maxLine {
		return text
	}
	return string([]rune(text)[:maxLine-1]) + "…"
}

func (b Box) width() float64 {
	longest := utf8.RuneCountInString(cut(b.Title))
	for _, line := range b.Lines {
		longest = max(longest, utf8.RuneCountInString(cut(line)))
	}
	return float64(longest)*charWidth + 2*padding
}

func (b Box) height() float64 { return float64(1+len(b.Lines))*lineHeight + padding }
