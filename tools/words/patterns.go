// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
)

// noLimit is the most of a pattern that is counted and not limited.
const noLimit = -1

// pattern is a word or a phrase that is counted.
type pattern struct {
	name        string
	match       *regexp.Regexp
	least, most float64 // per 10 000 words
}

// patterns returns the patterns in the order of the columns.
func patterns() []pattern {
	return []pattern{
		limited("what", 30, `what`),
		limited("nobody", 5, `(no|some|any|every)body('s)?`),
		{name: "response", match: words(`responses?`), least: 5, most: noLimit},
		limited("one-that", 10, `(one|ones|those) that`, `that of`, `the other ones?`),
		counted("one-who", `(one|ones|those) (who|whose|which|of)`, `other ones?`, `no other`),
		counted("told", `(is|are|was|were|be|been) (told|asked|blamed|believed)`, `believes?`, `blames?`),
		counted("came", `what (came|comes|comes back|is there|is wrong|it has|they have)`),
		counted("answer", `answer(s|ed|ing)?`),
		never("goes-on", `(go|goes|going|gone|went) on`),
		never("anew", `anew`, `for ever`),
		never("any-more", `any more`),
		never("mend", `mend(s|ed|ing)?`),
		never("let-go", `(let|lets|letting) go( of)?`, `takes? leave`),
		never("on-record", `on record`),
		never("into-use", `(take|takes|taken|taking|took) \w+( \w+)? into use`, `into use`),
		never("besides", `besides`),
		never("at-latest", `at the latest`),
		never("stands-for", `(stand|stands|stood|standing) for`),
		counted("a-right", `(a|the|its|their|no|every|which|of) rights?`, `rights`),
		counted("is-over", `(is|are|was|were) over`),
	}
}

// limited is a pattern that may occur so often.
func limited(name string, most float64, phrases ...string) pattern {
	return pattern{name: name, match: words(phrases...), most: most}
}

// counted is a pattern that is only counted.
func counted(name string, phrases ...string) pattern { return limited(name, noLimit, phrases...) }

// never is a pattern that may not occur.
func never(name string, phrases ...string) pattern { return limited(name, 0, phrases...) }

// words matches any of the phrases as whole words in any case, also across the end of a line.
func words(phrases ...string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + strings.ReplaceAll(strings.Join(phrases, "|"), " ", `\s+`) + `)\b`)
}

// within reports whether so many occurrences per 10 000 words are within the limit of the pattern.
func (p pattern) within(rate float64) bool {
	return rate >= p.least && (p.most == noLimit || rate <= p.most)
}
