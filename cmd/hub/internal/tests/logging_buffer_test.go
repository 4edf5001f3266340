// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
)

// A stalled reader does not block writers. When it reads again, it gets the lines that were kept, in order, a line with
// the number of missing lines, and all new lines.
func TestBuffer_StalledReader(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"info", "debug"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			read, write, err := os.Pipe()
			must(t, err)
			t.Cleanup(func() { _ = read.Close() })
			b := logging.NewBuffer(write)
			log := logging.New(b, logging.Options{Level: level})
			const lines = 40_000 // several times more than the limit of a mebibyte
			var writers sync.WaitGroup
			writers.Go(func() {
				for i := range lines {
					log.Info("Ready", "number", i)
					log.V(1).Info("Details")
				}
			})
			writers.Wait() // It would wait forever if the log blocked.
			dropped := testutil.ToFloat64(b)
			must(t, read.SetReadDeadline(time.Now().Add(time.Minute)))
			var text strings.Builder
			reader := bufio.NewReader(read)
			readUntil := func(mark string) {
				for line := ""; !strings.Contains(line, mark); text.WriteString(line) {
					line = readLine(t, reader)
				}
			}
			readUntil(`"lines":`) // until the writer has taken the kept lines
			if kept := text.Len(); kept > 3<<20 {
				t.Errorf("%d bytes were kept, want a mebibyte, and as many on their way", kept)
			}
			log.Info("Ready", "number", lines)
			readUntil(fmt.Sprintf(`"number":%d}`, lines))
			b.Close()
			must(t, write.Close())
			got, missing := linesOf(t, text.String())
			if dropped == 0 || dropped != missing || testutil.ToFloat64(b) != dropped {
				t.Errorf("the metric counts %g dropped lines, the log %g", dropped, missing)
			}
			all := lines + 1
			if level == "debug" {
				all += lines
			}
			if float64(got)+missing != float64(all) {
				t.Errorf("%d lines arrive and %g are missing, want %d together", got, missing, all)
			}
		})
	}
}

func readLine(t *testing.T, from *bufio.Reader) string {
	t.Helper()
	line, err := from.ReadString('\n')
	must(t, err)
	return line
}

// A line that is longer than the limit is dropped alone: the lines after it are written.
func TestBuffer_OversizedLine(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { _, _ = read.Close(), write.Close() })
	must(t, read.SetReadDeadline(time.Now().Add(time.Minute)))
	b := logging.NewBuffer(write)
	log := logging.New(b, logging.Options{})
	log.Info(strings.Repeat("x", 2<<20))
	lines := bufio.NewScanner(read)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"lines":1`) {
		t.Fatalf("the log is %q, %v", lines.Text(), lines.Err())
	}
	log.Info("After", "number", 1)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"msg":"After"`) {
		t.Errorf("the log is %q, %v", lines.Text(), lines.Err())
	}
	b.Close()
}

// With a reader, all lines are written, in order.
func TestBuffer_EveryLine(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	b := logging.NewBuffer(&out)
	want := ""
	for i := range 10000 {
		line := fmt.Sprintf("line %d\n", i)
		want += line
		_, err := b.Write([]byte(line))
		must(t, err)
	}
	b.Close()
	if out.String() != want || testutil.ToFloat64(b) != 0 {
		t.Errorf("%d bytes are written, want %d", out.Len(), len(want))
	}
}

// Close does not wait forever for a reader.
func TestBuffer_CloseIsBounded(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	b := logging.NewBuffer(write)
	_, err := b.Write([]byte("line\n"))
	must(t, err)
	b.Close()
	must(t, read.Close()) // It frees the goroutine.
}

// linesOf returns the number of logged lines, which must be in order, and the number of lines that the log reports as missing.
func linesOf(t *testing.T, text string) (lines int, missing float64) {
	t.Helper()
	last := -1.0
	for line := range strings.Lines(text) {
		var one struct {
			Msg           string
			Number, Lines *float64
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch {
		case one.Lines != nil:
			missing += *one.Lines
			continue
		case one.Number != nil && *one.Number <= last:
			t.Errorf("line %g comes after line %g", *one.Number, last)
		case one.Number != nil:
			last = *one.Number
		}
		lines++
	}
	return lines, missing
}
