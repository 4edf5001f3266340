// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// A Terminal is the three streams of a command. NewTerminal makes it. Several goroutines may print progress.
type Terminal struct {
	// In has answers, Out gets data, Err progress and questions.
	In       io.Reader
	Out, Err io.Writer

	mu sync.Mutex // protects Err while others print, so that lines stay whole

	fancyOut, fancyErr, asks bool
}

// NewTerminal returns a Terminal with these streams.
func NewTerminal(in io.Reader, out, err io.Writer) *Terminal {
	dull := os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	return &Terminal{
		In: in, Out: out, Err: err,
		fancyOut: !dull && isTerminal(out), fancyErr: !dull && isTerminal(err), asks: isTerminal(in),
	}
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Mark is what a line begins with: a symbol on a terminal, a word elsewhere.
type Mark int

// Plain lines have none. Marks of the begin of a step, of a command that has nothing to do but to wait, of a success, of a problem that does not stop the
// command, of an error, and of an unknown state.
const (
	Plain Mark = iota
	Step
	Rest
	OK
	Warning
	Failure
	Unknown
)

func (m Mark) text(fancy bool) string {
	both := [...][2]string{
		Step: {"\x1b[36m►\x1b[0m", ">"}, Rest: {"\x1b[36m◎\x1b[0m", ">"}, OK: {"\x1b[32m✔\x1b[0m", "ok"},
		Warning: {"\x1b[33m!\x1b[0m", "warning:"}, Failure: {"\x1b[31m✗\x1b[0m", "error:"}, Unknown: {"\x1b[36m○\x1b[0m", "unknown:"},
	}[m]
	if fancy {
		return both[0]
	}
	return both[1]
}

// Say writes a line to Err.
func (t *Terminal) Say(m Mark, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintln(t.Err, m.text(t.fancyErr), fmt.Sprintf(format, args...))
}

// Step prints that a step begins.
func (t *Terminal) Step(format string, args ...any) { t.Say(Step, format, args...) }

// Done prints that a step succeeded.
func (t *Terminal) Done(format string, args ...any) { t.Say(OK, format, args...) }

// Warn prints a warning.
func (t *Terminal) Warn(format string, args ...any) { t.Say(Warning, format, args...) }

// Text writes a line without a mark to Err.
func (t *Terminal) Text(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(t.Err, format+"\n", args...)
}

// Print writes a line to Out. It returns the error of the stream.
func (t *Terminal) Print(format string, args ...any) error {
	_, err := fmt.Fprintf(t.Out, format+"\n", args...)
	return err
}

// Marked returns a line for Out.
func (t *Terminal) Marked(m Mark, text string) string { return m.text(t.fancyOut) + " " + text }

// Count returns a number of things, such as 1 Cluster or 2 Clusters.
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprint(n, " ", thing)
}

var errRefused = errors.New("nothing was changed")

var errNoTerminal = errors.New("there is no terminal for the confirmation: check the plan above, and confirm it with --yes")

// Ask returns nil for a yes, errRefused for anything else, and blocks until there is an answer or ctx ends. Without a
// terminal the error names the flag to use. After the end of ctx a goroutine continues to read In, since it cannot be
// stopped.
func (t *Terminal) Ask(ctx context.Context, question string) error {
	err := t.ask(ctx.Done(), question)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (t *Terminal) ask(end <-chan struct{}, question string) error {
	if !t.asks {
		return errNoTerminal
	}
	_, _ = fmt.Fprint(t.Err, question+" [y/N] ")
	answers := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(t.In).ReadString('\n') // No answer is no yes.
		answers <- answer
	}()
	answer := ""
	select {
	case answer = <-answers:
	case <-end:
	}
	if !strings.HasSuffix(answer, "\n") {
		_, _ = fmt.Fprintln(t.Err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errRefused
}

// A Node is a line of a tree, with the lines below it.
type Node struct {
	Text     string
	Mark     Mark
	Children []*Node
}

// Add appends a child and returns it.
func (n *Node) Add(m Mark, format string, args ...any) *Node {
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
	if n.Mark == Plain {
		return n.Text
	}
	return t.Marked(n.Mark, n.Text)
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
