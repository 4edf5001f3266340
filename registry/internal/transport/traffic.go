// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Traffic counts the requests of one app. Its counters are looked up once; those of a removed remote are no longer
// exported.
type Traffic struct {
	ByClass   [6]prometheus.Counter // by the first digit of the status; 0 for no response
	Throttled prometheus.Counter    // seconds of waiting for the rate limit
}

// answered takes 0 for no response. A nil traffic counts nothing.
func (t *Traffic) answered(status int) {
	if t == nil {
		return
	}
	class := status / 100
	if class < 0 || class >= len(t.ByClass) {
		class = 0
	}
	t.ByClass[class].Inc()
}

func (t *Traffic) waited(d time.Duration) {
	if t != nil {
		t.Throttled.Add(d.Seconds())
	}
}
