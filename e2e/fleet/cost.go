// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// CostFile is the environment variable with a file for processor times: folder, program and seconds, separated by tabs.
const CostFile = "CLUSTERFX_COST_FILE"

// A report without it is not worth an error.
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

// ProcessorTime is that of the running programs, as Linux counts it; 0 if unknown.
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

// processorTime reads utime and stime, fields 14 and 15 of /proc/PID/stat, in hundredths of a second.
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
