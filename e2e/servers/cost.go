// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet"
)

type costs struct {
	file string

	mu       sync.Mutex // protects borrowed
	borrowed map[string]time.Duration
}

// tests are, in a line of the file, a test binary with all processes that it has ended.
const tests = "tests"

// execName is the -exec of go test, which measures a test binary.
const execName = "clusterfx-measure"

func (c *costs) begin(dir string) (env []string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c.file, c.borrowed = filepath.Join(dir, "costs"), map[string]time.Duration{}
	link := filepath.Join(dir, execName)
	env = []string{fleet.CostFile + "=" + c.file, "GOFLAGS=" + os.Getenv("GOFLAGS") + " -exec=" + link}
	return env, errors.Join(os.WriteFile(c.file, nil, 0o600), os.Symlink(self, link))
}

func (c *costs) used(borrower string, cpu time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.borrowed != nil {
		c.borrowed[borrower] += cpu
	}
}

func measure(args []string) int {
	c := exec.Command(args[0], args[1:]...) //nolint:noctx // go test ends it
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	if c.ProcessState == nil {
		_, _ = fmt.Fprintln(os.Stderr, "servers:", err)
		return 1
	}
	folder, _ := os.Getwd()
	line := fmt.Sprintf("%s\t%s\t%.3f\n", folder, tests, (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds())
	file, err := os.OpenFile(os.Getenv(fleet.CostFile), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = file.WriteString(line)
		_ = file.Close()
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "servers:", err)
		return 1
	}
	return max(c.ProcessState.ExitCode(), -c.ProcessState.ExitCode()) // -1: ended by a signal.
}

type row struct {
	all, servers float64 // seconds; all with the servers
	starts       int     // of servers of its own
}

// print includes all processes that this one has started: also the compiler, the linker and etcd.
func (c *costs) print(w io.Writer) error {
	rows, err := c.rows()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "ALL\tAPI SERVERS\tTESTS\tOWN STARTS\tPACKAGE\t")
	line := func(name string, r row) {
		_, _ = fmt.Fprintf(table, "%.1f\t%.1f\t%.1f\t%d\t%s\t\n", r.all, r.servers, r.all-r.servers, r.starts, name)
	}
	var sum row
	for _, name := range slices.SortedFunc(maps.Keys(rows), func(a, b string) int {
		return int(rows[b].all*1000) - int(rows[a].all*1000)
	}) {
		r := *rows[name]
		line(name, r)
		sum = row{sum.all + r.all, sum.servers + r.servers, sum.starts + r.starts}
	}
	line("all", sum)
	var all syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &all); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(table, "%.1f\t\t\t\tall processes\t\n", seconds(all.Utime)+seconds(all.Stime))
	return table.Flush()
}

func seconds(t syscall.Timeval) float64 { return time.Duration(t.Nano()).Seconds() }

// rows are by folders below this one.
func (c *costs) rows() (map[string]*row, error) {
	text, err := os.ReadFile(c.file)
	if err != nil {
		return nil, err
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	rows := map[string]*row{}
	rowOf := func(folder string) *row {
		if relative, err := filepath.Rel(root, folder); err == nil {
			folder = relative
		}
		if rows[folder] == nil {
			rows[folder] = &row{}
		}
		return rows[folder]
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		cpu, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", c.file, err)
		}
		r := rowOf(fields[0])
		if fields[1] == tests {
			r.all += cpu
			continue
		}
		r.servers += cpu // In the time of the test binary, too.
		if strings.Contains(fields[1], "apiserver") {
			r.starts++
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for folder, cpu := range c.borrowed {
		rowOf(folder).all += cpu.Seconds()
		rowOf(folder).servers += cpu.Seconds()
	}
	return rows, nil
}
