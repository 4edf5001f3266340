// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
	"testing/synctest"
	"time"
)

// The entry of an app that never becomes ready is closed after a while, the entry of a ready app after a shorter time,
// and the entry of an app that ends at once.
func TestRecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(*record)
		want time.Duration
	}{
		"waits for ever": {func(r *record) { r.closeAfter(provenUnreadyAfter) }, provenUnreadyAfter},
		"gets ready": {func(r *record) {
			r.closeAfter(provenUnreadyAfter)
			time.AfterFunc(time.Second, func() { r.closeAfter(provenAfter) })
		}, time.Second + provenAfter},
		"ends": {func(r *record) {
			r.closeAfter(provenUnreadyAfter)
			time.AfterFunc(time.Second, r.close)
		}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				closed := make(chan time.Duration, 1)
				var r record
				r.end = func() { closed <- time.Since(began) }
				c.do(&r)
				if got := <-closed; got != c.want {
					t.Errorf("closed after %s, want %s", got, c.want)
				}
			})
		})
	}
}
