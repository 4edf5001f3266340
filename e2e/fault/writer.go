// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"net"
	"time"
)

type writer struct {
	*conn
	way direction
	to  *net.TCPConn

	// passed counts bytes delivered under the setting since.
	since  *setting
	passed int64
}

// deliver reads the fault again whenever that changes. It returns false when the connection has ended.
func (w *writer) deliver(p piece) bool {
	for len(p.data) > 0 {
		s := w.proxy.setting()
		if s != w.since {
			w.since, w.passed = s, 0
		}
		r := s.rules[w.way]
		switch {
		case r.stopped:
			if !w.wait(s, nil) {
				return false
			}
			continue
		case r.lost:
			w.holed.Store(true)
			w.proxy.lost.Add(int64(len(p.data)))
			return true
		}
		if late := time.Until(r.due(p.read, p.luck)); late > 0 {
			if !w.waitUntil(s, late) {
				return false
			}
			continue
		}
		n, ok := w.write(s, p.data)
		if !ok {
			return false
		}
		p.data = p.data[n:]
	}
	return true
}

// write delivers as much as may pass at once.
func (w *writer) write(s *setting, data []byte) (n int, ok bool) {
	r := s.rules[w.way]
	if limit := s.limits[w.way]; limit != nil {
		data = data[:min(len(data), limit.Burst())]
		turn := limit.ReserveN(time.Now(), len(data))
		if !w.waitUntil(s, turn.Delay()) {
			return 0, false
		}
	}
	if r.cut > 0 {
		if w.passed >= r.cut {
			return 0, false
		}
		data = data[:min(int64(len(data)), r.cut-w.passed)]
	}
	if r.corrupt > 0 {
		corrupt(data, w.passed, r.corrupt)
	}
	n, err := w.to.Write(data)
	w.passed += int64(n)
	if r.cut > 0 && w.passed >= r.cut {
		w.end(false)
	}
	return n, err == nil
}

func corrupt(data []byte, passed, nth int64) {
	for i := nth - 1 - passed%nth; i < int64(len(data)); i += nth {
		data[i] ^= 1
	}
}

// waitUntil also returns when another fault is set; false when the connection ends.
func (w *writer) waitUntil(s *setting, d time.Duration) bool {
	return w.wait(s, time.After(d))
}

func (w *writer) wait(s *setting, until <-chan time.Time) bool {
	select {
	case <-until:
		return true
	case <-s.ended:
		return true
	case <-w.ctx.Done():
		return false
	}
}
