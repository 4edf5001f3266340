// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

var (
	settling = flag.Duration("settling", 70*time.Second, "how long BenchmarkRest waits before it measures, longer than two bookmarks")
	resting  = flag.Duration("resting", 20*time.Second, "how long BenchmarkRest measures")
)

// BenchmarkRest measures the CPU time of the process per second while n remotes are Ready and nothing happens, beside the
// floor: a plain client-go informer per remote. The API servers are other processes.
func BenchmarkRest(b *testing.B) {
	for field := range strings.SplitSeq(*remotes, ",") {
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatalf("-remotes: %v", err)
		}
		all := benchFleet(b, n)
		b.Run(fmt.Sprintf("remotes=%d/floor", n), func(b *testing.B) { stayAtRest(b, all, engageFloor) })
		b.Run(fmt.Sprintf("remotes=%d/registry", n), func(b *testing.B) { stayAtRest(b, all, engageRegistry) })
	}
}

func stayAtRest(b *testing.B, all []benchRemote, start engaging) {
	b.Helper()
	fleettest.Cluster(b, "hub") // The measurement does not include its start.
	s := &seen{all: make(chan struct{})}
	s.left.Store(int64(len(all) * benchObjects))
	stop := start(b, all, s)
	defer stop()
	select {
	case <-s.all:
	case <-time.After(5 * time.Minute):
		b.Fatalf("%d objects have not been seen, want 0", s.left.Load())
	}
	<-time.After(*settling)
	for b.Loop() {
		before, began := cpuTime(), time.Now()
		<-time.After(*resting)
		used, took := cpuTime()-before, time.Since(began)
		b.ReportMetric(float64(used.Microseconds())/1000/took.Seconds(), "cpu-ms/s")
		b.ReportMetric(float64(used.Microseconds())/took.Seconds()/float64(len(all)), "cpu-µs/s/remote")
	}
}

// cpuTime returns the CPU time that the process has used, in user code and in the kernel.
func cpuTime() time.Duration {
	var cpu syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &cpu)
	return time.Duration(cpu.Utime.Nano() + cpu.Stime.Nano())
}
