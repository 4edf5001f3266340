// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"runtime"
	"time"
)

// heapWatch samples the size of the heap.
type heapWatch struct {
	before, peak uint64
	end          chan struct{}
	ended        chan struct{}
}

// heapEvery is the time between two samples of the heap.
const heapEvery = 20 * time.Millisecond

// watchHeap starts to sample the heap after a garbage collection.
func watchHeap() *heapWatch {
	runtime.GC()
	w := &heapWatch{before: heapInUse(), end: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		tick := time.NewTicker(heapEvery)
		defer tick.Stop()
		for {
			w.peak = max(w.peak, heapInUse())
			select {
			case <-tick.C:
			case <-w.end:
				return
			}
		}
	}()
	return w
}

// stop returns the maximum growth of the heap in bytes.
func (w *heapWatch) stop() int64 {
	close(w.end)
	<-w.ended
	return int64(w.peak) - int64(w.before)
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}
