// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// CostFile is the environment variable with the file to which each process appends the processor time of the programs that
// it has run: the folder in which it works, the name of the program, and seconds, separated by tabs.
const CostFile = "CLUSTERFX_COST_FILE"

// noteCost appends the processor time of a program that has ended. A report without it is not worth an error.
func noteCost(name string, ended *os.ProcessState) {
	path := os.Getenv(CostFile)
	if path == "" || ended == nil {
		return
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	folder, _ := os.Getwd()
	_, _ = fmt.Fprintf(file, "%s\t%s\t%.3f\n", folder, name, (ended.UserTime() + ended.SystemTime()).Seconds())
}

// ProcessorTime returns the processor time that the running programs of the cluster have used, as Linux counts it; 0 if that
// cannot be read.
func (c *Cluster) ProcessorTime() time.Duration {
	m, ok := c.machine.(*programs)
	if !ok {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var sum time.Duration
	for _, p := range m.running {
		sum += processorTime(p.handle.Pid)
	}
	return sum
}

// processorTime reads /proc/PID/stat, see proc_pid_stat(5): utime and stime are fields 14 and 15, in hundredths of a second.
func processorTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	const afterName, utime, stime = 3, 14, 15
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) <= stime-afterName {
		return 0
	}
	user, _ := strconv.Atoi(fields[utime-afterName])
	system, _ := strconv.Atoi(fields[stime-afterName])
	return time.Duration(user+system) * time.Second / 100
}
