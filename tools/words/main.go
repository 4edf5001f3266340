// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

func main() {
	within, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	if !within {
		os.Exit(1)
	}
}

// options are the flags of the command.
type options struct {
	root, kind, list string
	check            bool
}

// run prints the counts, and with -check reports whether they are within their limits.
func run(args []string, out io.Writer) (bool, error) {
	given, err := parse(args)
	if err != nil {
		return false, err
	}
	texts, err := read(given.root, given.kind)
	if err != nil {
		return false, err
	}
	all, total, byFolder := patterns(), count{}, map[string]count{}
	var places []place
	for _, folder := range slices.Sorted(maps.Keys(texts)) {
		var in count
		for _, t := range texts[folder] {
			places = append(places, in.add(t, all)...)
		}
		byFolder[folder] = in
		total.merge(in)
	}
	switch {
	case given.list != "":
		return true, list(out, places, given.list)
	case given.check:
		return check(out, total, all)
	}
	return true, table(out, byFolder, total, all)
}

// parse reads the command line.
func parse(args []string) (options, error) {
	var given options
	flags := flag.NewFlagSet("words", flag.ContinueOnError)
	flags.StringVar(&given.kind, "of", comments, "what to count: comments, strings or pages")
	flags.StringVar(&given.list, "list", "", "print the places of a pattern, or of all")
	flags.BoolVar(&given.check, "check", false, "fail if a total is over its limit")
	if err := flags.Parse(args); err != nil {
		return given, err
	}
	if !slices.Contains([]string{comments, literals, pages}, given.kind) {
		return given, fmt.Errorf("-of is comments, strings or pages, not %q", given.kind)
	}
	given.root = "."
	if flags.NArg() > 0 {
		given.root = flags.Arg(0)
	}
	return given, nil
}

// list prints the places of one pattern, or of all of them.
func list(out io.Writer, places []place, name string) error {
	for _, p := range places {
		if name != "all" && name != p.pattern {
			continue
		}
		if _, err := fmt.Fprintf(out, "%s:%d: %s: %s\n", p.file, p.line, p.pattern, p.context); err != nil {
			return err
		}
	}
	return nil
}

// table prints the words of each folder, and the occurrences of each pattern per 10 000 words.
func table(out io.Writer, byFolder map[string]count, total count, all []pattern) error {
	var text strings.Builder
	text.WriteString("words")
	for _, p := range all {
		text.WriteString("\t" + p.name)
	}
	text.WriteString("\t  folder\n")
	for _, folder := range slices.Sorted(maps.Keys(byFolder)) {
		text.WriteString(row(byFolder[folder], all) + "\t  " + folder + "\n")
	}
	text.WriteString(row(total, all) + "\t  in all\n")
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if _, err := io.WriteString(columns, text.String()); err != nil {
		return err
	}
	return columns.Flush()
}

// row returns the cells of a count.
func row(c count, all []pattern) string {
	cells := []string{strconv.Itoa(c.words)}
	for _, p := range all {
		cells = append(cells, fmt.Sprintf("%.1f", c.rate(p.name)))
	}
	return strings.Join(cells, "\t")
}

// check prints the patterns that are over or under their limits, and reports whether there are none.
func check(out io.Writer, total count, all []pattern) (bool, error) {
	within := true
	for _, p := range all {
		rate := total.rate(p.name)
		if p.within(rate) {
			continue
		}
		within = false
		limit := fmt.Sprintf("at most %g", p.most)
		if rate < p.least {
			limit = fmt.Sprintf("at least %g", p.least)
		}
		if _, err := fmt.Fprintf(out, "%s: %.1f per 10 000 words (%d times), and the limit is %s; -list %s prints the places\n",
			p.name, rate, total.hits[p.name], limit, p.name); err != nil {
			return false, err
		}
	}
	return within, nil
}
