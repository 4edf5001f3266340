// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"golang.org/x/time/rate"
)

// longestText is the maximum length of a text in a line, in bytes.
const longestText = 512

func TestRemoteSink(t *testing.T) {
	t.Parallel()
	var lines []string
	inner := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: 1})
	log := logr.New(&remoteSink{inner: inner.GetSink(), limit: rate.NewLimiter(rate.Every(1<<40), 3)})
	log = log.WithName("reflector").WithValues("remote\x1b[2J", strings.Repeat("x", 10_000))
	for range 10 {
		log.Info("A line", "text", strings.Repeat("y", 10_000))
		log.Error(errors.New(strings.Repeat("z\n", 10_000)), "An error")
	}
	if len(lines) != 3 {
		t.Fatalf("got %d lines, want 3", len(lines))
	}
	for _, line := range lines {
		if len(line) > 4*longestText || strings.ContainsAny(line, "\x1b\n") {
			t.Errorf("line of %d bytes: %.100q", len(line), line)
		}
	}
}

func TestRemoteSink_WithoutALog(t *testing.T) {
	t.Parallel()
	log := logr.New(&remoteSink{inner: logr.Discard().GetSink(), limit: rate.NewLimiter(1, 1)})
	log.WithName("x").WithValues("a", 1).Error(nil, "A line without a log")
	log.Info("Another line")
}
