// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// text is a piece of prose: a group of comments, a string literal, or a page.
type text struct {
	file string
	line int // of its first line
	body string
}

// place is an occurrence of a pattern.
type place struct {
	file    string
	line    int
	pattern string
	context string
}

// count is the number of words in some texts, and the number of occurrences of each pattern by its name.
type count struct {
	words int
	hits  map[string]int
}

// add counts the words and the patterns of a text, and returns the places of the patterns.
func (c *count) add(t text, all []pattern) []place {
	if c.hits == nil {
		c.hits = map[string]int{}
	}
	c.words += wordsIn(t.body)
	var places []place
	for _, p := range all {
		for _, at := range p.match.FindAllStringIndex(t.body, -1) {
			c.hits[p.name]++
			places = append(places, place{
				file: t.file, line: t.line + strings.Count(t.body[:at[0]], "\n"), pattern: p.name, context: around(t.body, at),
			})
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.line, b.line) })
	return places
}

// merge adds another count to this one.
func (c *count) merge(other count) {
	if c.hits == nil {
		c.hits = map[string]int{}
	}
	c.words += other.words
	for name, n := range other.hits {
		c.hits[name] += n
	}
}

// rate returns the occurrences of a pattern per 10 000 words.
func (c *count) rate(pattern string) float64 {
	if c.words == 0 {
		return 0
	}
	return float64(c.hits[pattern]) * 10_000 / float64(c.words)
}

// wordsIn returns the number of words: of fields with a letter or a digit in them.
func wordsIn(body string) int {
	n := 0
	for field := range strings.FieldsSeq(body) {
		if strings.ContainsFunc(field, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// around returns a match with the words before and after it, in one line.
func around(body string, at []int) string {
	const width = 60
	from, to := max(0, at[0]-width), min(len(body), at[1]+width)
	return strings.Join(strings.Fields(strings.ToValidUTF8(body[from:to], "")), " ")
}
