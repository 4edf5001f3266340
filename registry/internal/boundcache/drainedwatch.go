// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// drainedWatch is a watch that reads the remaining events when it is stopped. The watches of metadata-only informers
// pass on events with watch.Filter, whose goroutine would otherwise wait forever for a receiver of its event.
type drainedWatch struct {
	watch.Interface
	once  sync.Once
	ended func() // called when the watch is stopped
}

// Stop ends the watch.
func (d *drainedWatch) Stop() {
	d.Interface.Stop()
	d.once.Do(func() {
		d.ended()
		go func() {
			for range d.ResultChan() {
			}
		}()
	})
}
