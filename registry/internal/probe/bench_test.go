// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"syscall"
	"testing"
	"time"
)

// BenchmarkProbe measures a probe of a healthy remote whose identity is known: a request for /readyz. The allocations and
// the CPU time include those of the server, which is in the same process.
func BenchmarkProbe(b *testing.B) {
	c := newAPIServer(b).connect(b, Pace{Period: time.Second, Timeout: time.Minute})
	last, err := c.probe(c.ctx, Outcome{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	before := cpuTime()
	for b.Loop() {
		c.identified = time.Now()
		if _, err := c.probe(c.ctx, last); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
}

// cpuTime returns the CPU time that the process has used, in user code and in the kernel.
func cpuTime() time.Duration {
	var cpu syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &cpu)
	return time.Duration(cpu.Utime.Nano() + cpu.Stime.Nano())
}
