// SPDX-License-Identifier: Apache-2.0

package output

import "fmt"

// A Node is a line of a tree, with the lines below it.
type Node struct {
	Text string
	// Mark goes before the text. Default: none.
	Mark     *Mark
	Children []*Node
}

// Add appends a child and returns it.
func (n *Node) Add(m *Mark, format string, args ...any) *Node {
	child := &Node{Text: fmt.Sprintf(format, args...), Mark: m}
	n.Children = append(n.Children, child)
	return child
}

// Tree writes a tree to Out: with lines on a terminal, in ASCII elsewhere.
func (t *Terminal) Tree(root *Node) error {
	if err := t.Print("%s", t.line(root)); err != nil {
		return err
	}
	return t.branches(root, "")
}

func (t *Terminal) line(n *Node) string {
	if n.Mark == nil {
		return n.Text
	}
	return t.Marked(*n.Mark, n.Text)
}

func (t *Terminal) branches(n *Node, indent string) error {
	fork, last, down, gap := "|- ", "`- ", "|  ", "   "
	if t.fancyOut {
		fork, last, down = "├─ ", "└─ ", "│  "
	}
	for i, child := range n.Children {
		branch, below := fork, down
		if i == len(n.Children)-1 {
			branch, below = last, gap
		}
		if err := t.Print("%s%s%s", indent, branch, t.line(child)); err != nil {
			return err
		}
		if err := t.branches(child, indent+below); err != nil {
			return err
		}
	}
	return nil
}
