// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Language is a way of writing a graph.
type Language string

const (
	// DOT is the language of Graphviz.
	DOT Language = "dot"
	// Mermaid is the language of diagrams in Markdown.
	Mermaid Language = "mermaid"
	// SVG is a picture.
	SVG Language = "svg"
	// JSON is for programs.
	JSON Language = "json"
)

// Write writes the graph in a language. The error names the known languages, or comes from the writer.
func (g *Graph) Write(w io.Writer, in Language) error {
	switch in {
	case JSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(g)
	case DOT:
		_, err := io.WriteString(w, g.dot())
		return err
	case Mermaid:
		_, err := io.WriteString(w, g.mermaid())
		return err
	case SVG:
		_, err := io.WriteString(w, g.svg())
		return err
	}
	return fmt.Errorf("--output=%q: use %s, %s, %s or %s", string(in), DOT, SVG, Mermaid, JSON)
}

// box is a node of a drawing.
type box struct {
	id, label string
	invoked   bool
}

// arrow leads from who makes something to who needs it. There is one between two functions.
type arrow struct {
	from, to string
	types    []string
	optional bool // all of the types
}

// maxLabel is how many types stand at an arrow.
const maxLabel = 3

// label names the types.
func (a arrow) label() string {
	if len(a.types) > maxLabel {
		return strings.Join(a.types[:maxLabel-1], "\n") + fmt.Sprintf("\nand %d more", len(a.types)-maxLabel+1)
	}
	return strings.Join(a.types, "\n")
}

// title returns the name of the constructor in a picture.
func (c *Constructor) title() string { return authorName(c.Name, c.Location, false) }

// title returns the name of the function in a picture.
func (i Invoke) title() string { return authorName(i.Name, i.Location, true) }

// boxes returns the nodes by module, and the modules in the order in which they come.
func (g *Graph) boxes() (modules []string, of map[string][]box) {
	of = map[string][]box{}
	add := func(module string, b box) {
		if !slices.Contains(modules, module) {
			modules = append(modules, module)
		}
		of[module] = append(of[module], b)
	}
	for i, c := range g.Constructors {
		add(c.Module, box{id: fmt.Sprint("c", i), label: c.title() + "\n" + strings.Join(c.Types, "\n")})
	}
	for i, one := range g.Invokes {
		add(one.Module, box{id: fmt.Sprint("i", i), label: one.title(), invoked: true})
	}
	return modules, of
}

func (g *Graph) arrows() []arrow {
	ids := map[*Constructor]string{}
	for i, c := range g.Constructors {
		ids[c] = fmt.Sprint("c", i)
	}
	var all []arrow
	add := func(from, to string, need Need) {
		i := slices.IndexFunc(all, func(a arrow) bool { return a.from == from && a.to == to })
		if i < 0 {
			all = append(all, arrow{from, to, []string{need.Type}, need.Optional})
			return
		}
		all[i].optional = all[i].optional && need.Optional
		if !slices.Contains(all[i].types, need.Type) {
			all[i].types = append(all[i].types, need.Type)
		}
	}
	lead := func(to, module string, needs []Need) {
		for _, need := range needs {
			for _, maker := range g.makers(need.Type, module) {
				add(ids[maker], to, need)
			}
			if i := slices.Index(g.Missing, need.Type); i >= 0 {
				add(fmt.Sprint("m", i), to, Need{Type: need.Type})
			}
		}
	}
	for _, c := range g.Constructors {
		lead(ids[c], c.Module, c.Needs)
	}
	for i, one := range g.Invokes {
		lead(fmt.Sprint("i", i), one.Module, one.Needs)
	}
	return all
}

func (g *Graph) dot() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  rankdir=LR;\n  node [shape=box fontname=\"sans-serif\" fontsize=10];\n  edge [fontname=\"sans-serif\" fontsize=8];\n",
		strconv.Quote(g.Title))
	modules, of := g.boxes()
	for i, module := range modules {
		if module != "" {
			fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%s;\n", i, strconv.Quote("module "+module))
		}
		for _, one := range of[module] {
			style := ""
			if one.invoked {
				style = " shape=oval"
			}
			fmt.Fprintf(&b, "    %s [label=%s%s];\n", one.id, strconv.Quote(one.label), style)
		}
		if module != "" {
			b.WriteString("  }\n")
		}
	}
	for i, kind := range g.Missing {
		fmt.Fprintf(&b, "  m%d [label=%s color=red fontcolor=red];\n", i, strconv.Quote("missing\n"+kind))
	}
	for _, a := range g.arrows() {
		style := ""
		if a.optional {
			style = " style=dashed"
		}
		fmt.Fprintf(&b, "  %s -> %s [label=%s%s];\n", a.from, a.to, strconv.Quote(a.label()), style)
	}
	b.WriteString("}\n")
	return b.String()
}

func (g *Graph) mermaid() string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\ntitle: %s\n---\nflowchart LR\n", g.Title)
	modules, of := g.boxes()
	for i, module := range modules {
		if module != "" {
			fmt.Fprintf(&b, "  subgraph s%d[\"module %s\"]\n", i, quoted(module))
		}
		for _, one := range of[module] {
			form := `    %s["%s"]` + "\n"
			if one.invoked {
				form = `    %s(["%s"])` + "\n"
			}
			fmt.Fprintf(&b, form, one.id, quoted(one.label))
		}
		if module != "" {
			b.WriteString("  end\n")
		}
	}
	for i, kind := range g.Missing {
		fmt.Fprintf(&b, "  m%d[\"missing<br/>%s\"]\n  style m%d stroke:red,color:red\n", i, quoted(kind), i)
	}
	for _, a := range g.arrows() {
		line := "-->"
		if a.optional {
			line = "-.->"
		}
		fmt.Fprintf(&b, "  %s %s|\"%s\"| %s\n", a.from, line, quoted(a.label()), a.to)
	}
	return b.String()
}

// quoted returns a text as it stands between the quotes of Mermaid.
func quoted(text string) string {
	return strings.NewReplacer(`"`, "#quot;", "\n", "<br/>", "<", "#lt;", ">", "#gt;").Replace(text)
}
