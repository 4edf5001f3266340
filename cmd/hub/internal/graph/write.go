// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Language is how a graph is written: formats, with the index of what they are about first.
type Language struct {
	begin, end, module, moduleEnd, constructor, arrow, optional string
	quote                                                       func(string) string
}

// DOT is the language of Graphviz.
func DOT() Language {
	return Language{
		begin: "digraph %s {\n  rankdir=LR;\n  node [shape=box fontname=\"sans-serif\" fontsize=10];\n" +
			"  edge [fontname=\"sans-serif\" fontsize=8];\n",
		end:    "}\n",
		module: "  subgraph cluster_%d {\n    label=%s;\n", moduleEnd: "  }\n",
		constructor: "    f%d [label=%s];\n",
		arrow:       "  f%d -> f%d [label=%s];\n", optional: "  f%d -> f%d [label=%s style=dashed];\n",
		quote: strconv.Quote,
	}
}

// Mermaid is the language of diagrams in Markdown.
func Mermaid() Language {
	special := strings.NewReplacer(`"`, "#quot;", "\n", "<br/>", "<", "#lt;", ">", "#gt;")
	return Language{
		begin:  "---\ntitle: %s\n---\nflowchart LR\n",
		module: "  subgraph s%d[%s]\n", moduleEnd: "  end\n",
		constructor: "    f%d[%s]\n",
		arrow:       "  f%d -->|%[3]s| f%[2]d\n", optional: "  f%d -.->|%[3]s| f%[2]d\n",
		quote: func(text string) string { return `"` + special.Replace(text) + `"` },
	}
}

// Text returns the graph in a language.
func (g *Graph) Text(in Language) string {
	var b strings.Builder
	title := g.Title
	if in.end != "" {
		title = in.quote(title)
	}
	fmt.Fprintf(&b, in.begin, title)
	var modules []string
	for _, f := range g.Functions {
		if !slices.Contains(modules, f.Module) {
			modules = append(modules, f.Module)
		}
	}
	for i, module := range modules {
		if module != "" {
			fmt.Fprintf(&b, in.module, i, in.quote("module "+module))
		}
		for i, f := range g.Functions {
			if f.Module == module {
				fmt.Fprintf(&b, in.constructor, i, in.quote(f.title()+"\n"+strings.Join(f.Types, "\n")))
			}
		}
		if module != "" {
			b.WriteString(in.moduleEnd)
		}
	}
	for to, f := range g.Functions {
		for from, maker := range g.Functions {
			in.write(&b, from, to, f.needsOf(maker))
		}
	}
	b.WriteString(in.end)
	return b.String()
}

// needsOf returns what a function needs of a constructor.
func (f *Function) needsOf(maker *Function) []Need {
	return slices.DeleteFunc(slices.Clone(f.Needs), func(n Need) bool {
		return !slices.Contains(maker.Types, n.Type) || maker.private && maker.Module != f.Module
	})
}

// maxLabel is how many types stand at an arrow.
const maxLabel = 3

// write writes the one arrow between two functions, if there is one. It is dashed if all needs are optional.
func (in Language) write(b *strings.Builder, from, to int, needs []Need) {
	if len(needs) == 0 {
		return
	}
	format := in.optional
	var label []string
	for _, need := range needs {
		if !need.Optional {
			format = in.arrow
		}
		label = append(label, need.Type)
	}
	if more := len(label) - maxLabel + 1; more > 1 {
		label = append(label[:maxLabel-1], fmt.Sprintf("and %d more", more))
	}
	fmt.Fprintf(b, format, from, to, in.quote(strings.Join(label, "\n")))
}

// literal is a function without a name, as Go names it.
var literal = regexp.MustCompile(`\bfunc\d+(?:\.\d+)*\(\)$`)

// title returns the name of the function in a picture, and the place of one without a name.
func (f *Function) title() string {
	if _, place, found := strings.Cut(f.Location, " ("); found && literal.MatchString(f.Name) {
		return f.Name + "\n" + path.Base(strings.TrimSuffix(place, ")"))
	}
	return f.Name
}
