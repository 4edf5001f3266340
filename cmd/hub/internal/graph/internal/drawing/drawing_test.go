// SPDX-License-Identifier: Apache-2.0

package drawing

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// randomDrawing returns a graph that resembles the graph of an App, or is larger: most arrows lead from earlier to
// later boxes, some lead back.
func randomDrawing(random *rand.Rand) Drawing {
	d := Drawing{Title: "random", Note: "a note"}
	for i := range 1 + random.IntN(40) {
		b := Box{Title: fmt.Sprintf("box %d %s", i, strings.Repeat("ä", random.IntN(60))), Last: random.IntN(5) == 0}
		if group := random.IntN(5); group > 0 {
			b.Group = fmt.Sprint("group ", group)
		}
		for line := range random.IntN(8) {
			b.Lines = append(b.Lines, fmt.Sprintf("*type<%d>%s", line, strings.Repeat("x", random.IntN(60))))
		}
		for range random.IntN(4) {
			from := random.IntN(i + 1)
			if from < i {
				d.Arrows = append(d.Arrows, Arrow{From: from, To: i, Line: random.IntN(len(d.Boxes[from].Lines)+1) - 1})
			}
		}
		d.Boxes = append(d.Boxes, b)
	}
	if random.IntN(4) == 0 && len(d.Boxes) > 1 {
		d.Arrows = append(d.Arrows, Arrow{From: len(d.Boxes) - 1, Line: -1}, Arrow{From: 0, Line: -1})
	}
	return d
}

// Boxes and lanes do not overlap, lines fit into their boxes, and arrows go from left to right without crossing a box.
func TestLay_NothingIsInTheWay(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		d := randomDrawing(rand.New(rand.NewPCG(seed, seed)))
		l := d.lay()
		for i, a := range l.items {
			for _, b := range l.items[i+1:] {
				if a.x < b.x+b.w && b.x < a.x+a.w && a.y < b.y+b.h && b.y < a.y+a.h {
					t.Fatalf("seed %d: boxes %d and %d cover each other: %+v, %+v", seed, a.box, b.box, a, b)
				}
			}
			lane, box := l.lanes[a.lane], d.Boxes[i]
			if a.y < lane.y || a.y+a.h > lane.y+lane.h || a.x < margin || a.x+a.w > l.width-margin {
				t.Fatalf("seed %d: box %d is not in its lane", seed, i)
			}
			for _, line := range append([]string{cut(box.Title)}, box.Lines...) {
				if float64(utf8.RuneCountInString(cut(line)))*charWidth > a.w && line != cut(box.Title) {
					t.Fatalf("seed %d: a line of box %d is longer than the box", seed, i)
				}
			}
		}
		for i := 1; i < len(l.lanes); i++ {
			if above := l.lanes[i-1]; above.y+above.h > l.lanes[i].y {
				t.Fatalf("seed %d: lanes %d and %d cover each other", seed, i-1, i)
			}
		}
		for _, r := range l.routes {
			expectFree(t, l, r, seed)
		}
	}
}

// expectFree fails the test if an arrow goes back, goes through a box, or misses its boxes.
func expectFree(t *testing.T, l *layout, r *route, seed uint64) {
	t.Helper()
	stops := l.stops(r)
	for i, next := range stops[1:] {
		last := stops[i]
		if next.x < last.x {
			t.Fatalf("seed %d: the arrow %+v goes back", seed, r.Arrow)
		}
		low, high := min(last.y, next.y), max(last.y, next.y)
		for _, box := range l.items {
			inside := last.x < box.x+box.w && box.x < next.x && low < box.y+box.h && box.y < high+0.01
			if inside {
				t.Fatalf("seed %d: the arrow %+v goes through box %d", seed, r.Arrow, box.box)
			}
		}
	}
	to := l.items[r.To]
	if r.entry < to.y || r.entry > to.y+to.h || l.exit(r) > l.items[r.From].y+l.items[r.From].h {
		t.Fatalf("seed %d: the arrow %+v misses its boxes", seed, r.Arrow)
	}
}

// Every arrow between two boxes is drawn, and a box that is marked as last is in the last column.
func TestLay_Columns(t *testing.T) {
	t.Parallel()
	d := Drawing{
		Boxes: []Box{{Title: "a"}, {Title: "b"}, {Title: "c"}, {Title: "next to c"}, {Title: "alone", Last: true}, {Title: "itself"}},
		Arrows: []Arrow{
			{From: 0, To: 1, Line: -1},
			{From: 1, To: 2, Line: -1},
			{From: 3, To: 2, Line: -1},
			{From: 0, To: 2, Line: -1},
			{From: 5, To: 5, Line: -1},
		},
	}
	l := d.lay()
	for i, want := range []int{0, 1, 2, 1, 2, 0} {
		if got := l.items[i].column; got != want {
			t.Errorf("%s is in column %d, want %d", d.Boxes[i].Title, got, want)
		}
	}
	if len(l.routes) != 4 || len(l.routes[3].slots) != 1 {
		t.Errorf("%d arrows are drawn, want 4, the last with one slot", len(l.routes))
	}
}

// The picture is valid XML, and contains all texts.
func TestSVG(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		d := randomDrawing(rand.New(rand.NewPCG(seed, 7)))
		picture := d.SVG()
		decoder, texts := xml.NewDecoder(strings.NewReader(picture)), map[string]bool{}
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("seed %d: %v in\n%s", seed, err, picture)
			}
			if chars, ok := token.(xml.CharData); ok {
				texts[string(chars)] = true
			}
		}
		for _, b := range d.Boxes {
			for _, line := range append([]string{b.Title}, b.Lines...) {
				if !texts[cut(line)] {
					t.Fatalf("seed %d: %q is not in the picture", seed, cut(line))
				}
			}
		}
	}
	if (Drawing{}).SVG() == "" {
		t.Error("an empty drawing has an empty picture")
	}
}
