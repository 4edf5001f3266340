// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// traffic counts the requests of one app. The counters are looked up once; an app that outlives its remote's
// leave counts where nobody looks.
type traffic struct {
	codes     [6]prometheus.Counter // by the first digit of the status; 0 for no answer
	throttled prometheus.Counter
}

// answered counts a request with the status of its answer, 0 for none. A nil traffic counts nothing.
func (t *traffic) answered(status int) {
	if t == nil {
		return
	}
	class := status / 100
	if class < 0 || class >= len(t.codes) {
		class = 0
	}
	t.codes[class].Inc()
}

func (t *traffic) waited(d time.Duration) {
	if t != nil {
		t.throttled.Add(d.Seconds())
	}
}
