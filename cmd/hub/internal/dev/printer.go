// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
)

// style is how a printer marks its lines.
type style string

const (
	fancy style = "fancy" // coloured symbols
	plain style = "plain" // words
)

// printer shows people how far things have come, a line at a time.
type printer struct {
	mu    sync.Mutex // protects the rest, so that lines stay whole
	style style
	w     io.Writer
}

var _ io.Writer = (*printer)(nil)

// newPrinter returns a printer that is fancy on terminals, unless NO_COLOR is set (no-color.org).
func newPrinter(w io.Writer) *printer {
	if logging.Terminal(w) && os.Getenv("NO_COLOR") == "" {
		return &printer{w: w, style: fancy}
	}
	return &printer{w: w, style: plain}
}

// step prints that a step begins.
func (p *printer) step(format string, args ...any) { p.mark("\x1b[36m►\x1b[0m ", "> ", format, args) }

// done prints that a step succeeded.
func (p *printer) done(format string, args ...any) {
	p.mark("\x1b[32m✔\x1b[0m ", "ok ", format, args)
}

// fail prints an error.
func (p *printer) fail(format string, args ...any) {
	p.mark("\x1b[31m✗\x1b[0m ", "error: ", format, args)
}

// rest prints a line about the state that follows.
func (p *printer) rest(format string, args ...any) { p.mark("\x1b[36m◎\x1b[0m ", "> ", format, args) }

// text prints a line as it is.
func (p *printer) text(format string, args ...any) { p.mark("", "", format, args) }

func (p *printer) mark(symbol, word, format string, args []any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.style == plain {
		symbol = word
	}
	_, _ = fmt.Fprintf(p.w, symbol+format+"\n", args...)
}

// Write prints formatted text.
func (p *printer) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.w.Write(data)
}

// redirect makes the printer plain and write somewhere else from now on.
func (p *printer) redirect(w io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w, p.style = w, plain
}

// report prints an error, and returns ErrFailed in its place.
func (p *printer) report(err error) error {
	if err == nil {
		return nil
	}
	p.fail("%v", err)
	return ErrFailed
}

// since formats how long something took.
func since(begin time.Time) string { return fmt.Sprintf("%.1fs", time.Since(begin).Seconds()) }

// number formats a number of things, which may be one.
func number(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
