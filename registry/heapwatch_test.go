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

// heapEvery is how often the heap is looked at.
const heapEvery = 20 * time.Millisecond

// watchHeap begins with a heap that has no garbage in it.
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

// stop returns by how many bytes the heap has grown at most.
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
