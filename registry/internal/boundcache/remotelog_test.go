// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"golang.org/x/time/rate"
)

func TestRemoteSink(t *testing.T) {
	t.Parallel()
	var lines []string
	inner := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: 1})
	log := logr.New(&remoteSink{inner: inner.GetSink(), limit: rate.NewLimiter(rate.Every(1<<40), 3), clean: shorten})
	log = log.WithName("reflector").WithValues("remote\x1b[2J", strings.Repeat("x", 10_000))
	for range 10 {
		log.Info("A line", "text", strings.Repeat("y", 10_000))
		log.Error(errors.New(strings.Repeat("z\n", 10_000)), "An error")
	}
	if len(lines) != 3 {
		t.Fatalf("%d lines, want 3", len(lines))
	}
	for _, line := range lines {
		if len(line) > 4*shortened || strings.ContainsAny(line, "\x1b\n") {
			t.Errorf("line of %d bytes: %.100q", len(line), line)
		}
	}
}

func TestRemoteSink_WithoutALog(t *testing.T) {
	t.Parallel()
	log := logr.New(&remoteSink{inner: logr.Discard().GetSink(), limit: rate.NewLimiter(1, 1), clean: shorten})
	log.WithName("x").WithValues("a", 1).Error(nil, "Nobody reads this")
	log.Info("Nor this")
}

const shortened = 512

// shorten returns the printable part of a text, up to a limit.
func shorten(text string) string {
	printable := strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return -1
		}
		return r
	}, text)
	return printable[:min(len(printable), shortened)]
}
