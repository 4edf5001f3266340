// SPDX-License-Identifier: Apache-2.0

package drawing

import (
	"cmp"
	"slices"
)

// item is a box, or the slot of arrows in a column that they pass.
type item struct {
	box        int // -1 for a slot
	lane       int
	column     int
	x, y, w, h float64
	place      float64 // in the stack, for sorting
	before     []*item // connected with it in the column to the left, and to the right
	after      []*item
}

// middle is the height at which a slot is passed.
func (i *item) middle() float64 { return i.y + i.h/2 }

// route is an arrow with the slots that it passes.
type route struct {
	Arrow
	slots []*item
	entry float64 // where it meets its box
}

// lane is a group of boxes, one column next to the other.
type lane struct {
	name    string
	columns [][]*item
	y, h    float64
}

// layout is where everything is.
type layout struct {
	Drawing
	items  []*item // the boxes, in the order of Boxes
	routes []*route
	lanes  []*lane
	width  float64
	height float64
}

// lay finds a place for everything.
func (d Drawing) lay() *layout {
	l := &layout{Drawing: d}
	columns := d.columns()
	names := map[string]int{}
	for i, b := range d.Boxes {
		if _, known := names[b.Group]; !known {
			names[b.Group] = len(l.lanes)
			l.lanes = append(l.lanes, &lane{name: b.Group})
		}
		l.items = append(l.items, &item{box: i, lane: names[b.Group], column: columns[i], w: b.width(), h: b.height()})
	}
	count := 0
	for _, one := range l.items {
		count = max(count, one.column+1)
	}
	for _, one := range l.lanes {
		one.columns = make([][]*item, count)
	}
	for _, one := range l.items {
		l.put(one)
	}
	l.route()
	l.makeRoom()
	l.sort(count)
	l.placeColumns(count)
	l.placeRows()
	l.placeEntries()
	return l
}

func (l *layout) put(one *item) {
	stack := &l.lanes[one.lane].columns[one.column]
	*stack = append(*stack, one)
}

// columns returns the column of each box: after all that it has arrows from. An arrow that leads back is not
// looked at.
func (d Drawing) columns() []int {
	columns := make([]int, len(d.Boxes))
	for range d.Boxes {
		moved := false
		for _, a := range d.Arrows {
			if a.From != a.To && columns[a.To] <= columns[a.From] && columns[a.From]+1 < len(d.Boxes) {
				columns[a.To], moved = columns[a.From]+1, true
			}
		}
		if !moved {
			break
		}
	}
	d.pullRight(columns)
	return columns
}

// pullRight moves boxes towards the boxes that they have arrows to, and boxes with Last to the end.
func (d Drawing) pullRight(columns []int) {
	last := slices.Max(append([]int{0}, columns...))
	for range d.Boxes {
		for i, b := range d.Boxes {
			nearest := last + 1
			for _, a := range d.Arrows {
				if a.From == i && columns[a.To] > columns[i] {
					nearest = min(nearest, columns[a.To])
				}
			}
			switch {
			case nearest <= last:
				columns[i] = nearest - 1
			case b.Last:
				columns[i] = last
			}
		}
	}
}

// route gives each arrow a slot in every column that it passes. Arrows from one line to one lane share theirs.
func (l *layout) route() {
	type key struct{ from, line, lane, column int }
	shared := map[key]*item{}
	for _, a := range l.Arrows {
		from, to := l.items[a.From], l.items[a.To]
		if to.column <= from.column {
			continue // It could not be drawn from left to right.
		}
		r := &route{Arrow: a}
		last := from
		for column := from.column + 1; column < to.column; column++ {
			k := key{a.From, a.Line, to.lane, column}
			if shared[k] == nil {
				shared[k] = &item{box: -1, lane: to.lane, column: column, h: slotHeight}
				l.put(shared[k])
			}
			connect(last, shared[k])
			last = shared[k]
			r.slots = append(r.slots, last)
		}
		connect(last, to)
		l.routes = append(l.routes, r)
	}
}

// arrival is the least distance between two arrows that meet in a box.
const arrival = 8

// makeRoom makes boxes as high as the arrows need that meet in them.
func (l *layout) makeRoom() {
	arriving := map[int]int{}
	for _, r := range l.routes {
		arriving[r.To]++
	}
	for to, n := range arriving {
		l.items[to].h = max(l.items[to].h, float64(n+1)*arrival)
	}
}

func connect(a, b *item) {
	if !slices.Contains(a.after, b) {
		a.after, b.before = append(a.after, b), append(b.before, a)
	}
}

// sweeps is how often stacks are sorted. More do not change much.
const sweeps = 8

// sort puts connected boxes next to each other.
func (l *layout) sort(count int) {
	for sweep := range sweeps {
		for i := range count {
			column, neighbours := i, func(one *item) []*item { return one.before }
			if sweep%2 == 1 {
				column, neighbours = count-1-i, func(one *item) []*item { return one.after }
			}
			for _, one := range l.lanes {
				sortStack(one.columns[column], neighbours)
			}
		}
	}
}

// laneDistance makes the lanes matter more than the places in them.
const laneDistance = 1000

func sortStack(stack []*item, neighbours func(*item) []*item) {
	for i, one := range stack {
		near := neighbours(one)
		sum := 0.0
		for _, other := range near {
			sum += other.place
		}
		one.place = float64(one.lane*laneDistance + i)
		if len(near) > 0 {
			one.place = sum / float64(len(near))
		}
	}
	slices.SortStableFunc(stack, func(a, b *item) int { return cmp.Compare(a.place, b.place) })
	for i, one := range stack {
		one.place = float64(one.lane*laneDistance + i)
	}
}

// placeColumns makes every column as wide as its widest box.
func (l *layout) placeColumns(count int) {
	x := float64(margin + padding)
	for column := range count {
		width := 0.0
		for _, lane := range l.lanes {
			for _, one := range lane.columns[column] {
				width = max(width, one.w)
			}
		}
		for _, lane := range l.lanes {
			for _, one := range lane.columns[column] {
				one.x = x
				if one.box < 0 {
					one.w = width
				}
			}
		}
		x += width + columnGap
	}
	l.width = x - columnGap + padding + margin
}

// placeRows makes every lane as high as its highest stack, in the middle of which the others are.
func (l *layout) placeRows() {
	y := float64(titleSpace)
	for _, one := range l.lanes {
		one.y = y
		top, highest := y+padding, 0.0
		if one.name != "" {
			top += laneTitle
		}
		for _, stack := range one.columns {
			highest = max(highest, heightOf(stack))
		}
		for _, stack := range one.columns {
			at := top + (highest-heightOf(stack))/2
			for _, i := range stack {
				i.y = at
				at += i.h + rowGap
			}
		}
		one.h = top + highest + padding - y
		y += one.h + laneGap
	}
	l.height = y + margin
	if l.Note != "" {
		l.height += lineHeight
	}
}

func heightOf(stack []*item) float64 {
	height := 0.0
	for i, one := range stack {
		if i > 0 {
			height += rowGap
		}
		height += one.h
	}
	return height
}

// placeEntries spreads the arrows that meet in a box over its side, in the order in which they come.
func (l *layout) placeEntries() {
	arriving := map[int][]*route{}
	for _, r := range l.routes {
		arriving[r.To] = append(arriving[r.To], r)
	}
	for to, routes := range arriving {
		slices.SortStableFunc(routes, func(a, b *route) int { return cmp.Compare(l.comesFrom(a), l.comesFrom(b)) })
		for i, r := range routes {
			box := l.items[to]
			r.entry = box.y + box.h*float64(i+1)/float64(len(routes)+1)
		}
	}
}

// comesFrom returns the height at which an arrow leaves the last column before its box.
func (l *layout) comesFrom(r *route) float64 {
	if n := len(r.slots); n > 0 {
		return r.slots[n-1].middle()
	}
	return l.exit(r)
}

// exit returns the height at which an arrow leaves its box.
func (l *layout) exit(r *route) float64 {
	return l.items[r.From].y + padding/2 + (float64(r.Line+1)+0.5)*lineHeight
}
