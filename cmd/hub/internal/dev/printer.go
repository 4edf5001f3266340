// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
)

type style string

const (
	fancy style = "fancy" // coloured symbols
	plain style = "plain" // words
)

type printer struct {
	mu    sync.Mutex // protects the rest, so that lines stay whole
	style style
	w     io.Writer
}

var _ io.Writer = (*printer)(nil)

// newPrinter is fancy on terminals, unless NO_COLOR is set (no-color.org).
func newPrinter(w io.Writer) *printer {
	if logging.Terminal(w) && os.Getenv("NO_COLOR") == "" {
		return &printer{w: w, style: fancy}
	}
	return &printer{w: w, style: plain}
}

func (p *printer) step(format string, args ...any) { p.mark("\x1b[36m►\x1b[0m ", "> ", format, args) }

func (p *printer) done(format string, args ...any) {
	p.mark("\x1b[32m✔\x1b[0m ", "ok ", format, args)
}

func (p *printer) fail(format string, args ...any) {
	p.mark("\x1b[31m✗\x1b[0m ", "error: ", format, args)
}

func (p *printer) rest(format string, args ...any) { p.mark("\x1b[36m◎\x1b[0m ", "> ", format, args) }

func (p *printer) text(format string, args ...any) { p.mark("", "", format, args) }

func (p *printer) mark(symbol, word, format string, args []any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.style == plain {
		symbol = word
	}
	_, _ = fmt.Fprintf(p.w, symbol+format+"\n", args...)
}

func (p *printer) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.w.Write(data)
}

// redirect makes the printer plain, and write somewhere else.
func (p *printer) redirect(w io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w, p.style = w, plain
}

func (p *printer) report(err error) error {
	if err == nil {
		return nil
	}
	p.fail("%v", err)
	return ErrFailed
}

func since(begin time.Time) string { return fmt.Sprintf("%.1fs", time.Since(begin).Seconds()) }

func number(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// indented puts text of others below our own lines.
type indented struct{ w io.Writer }

// Write expects whole lines.
func (i indented) Write(data []byte) (int, error) {
	lines := bytes.TrimRight(data, "\n")
	_, err := i.w.Write(append([]byte("  "), append(bytes.ReplaceAll(lines, []byte("\n"), []byte("\n  ")), '\n')...))
	return len(data), err
}
