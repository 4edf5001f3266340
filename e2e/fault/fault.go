// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"math"
	"time"
)

// A Fault is a way in which the network does not work: a value that can be set any number of times. The zero is Pass.
type Fault struct {
	name  string
	door  doorMode
	reset bool // every connection, old and new
	rules [directions]rule
}

type direction int

const (
	up         direction = iota // from the client to the server
	down                        // from the server to the client
	directions                  // how many there are
)

// The zero rule lets bytes pass.
type rule struct {
	unread  bool // the reader stands still
	stopped bool // the writer stands still
	lost    bool // read and thrown away

	delay, jitter time.Duration
	rate          int   // bytes per second, 0 for any
	cut           int64 // bytes until the end, 0 for never
	corrupt       int64 // changes every n-th byte, 0 for none
}

// String names the fault.
func (f Fault) String() string {
	if f.name == "" {
		return "pass"
	}
	return f.name
}

// Pass lets everything flow.
func Pass() Fault { return Fault{} }

// Refuse closes the listener, so that connections are refused, and resets existing connections.
func Refuse() Fault { return Fault{name: "refuse", door: doorShut, reset: true} }

// Reset resets existing connections, and each new one at once.
func Reset() Fault { return Fault{name: "reset", reset: true} }

// Blackhole lets nothing arrive in either direction. Existing connections are silent, and connecting hangs.
func Blackhole() Fault {
	silent := rule{unread: true, stopped: true}
	return Fault{name: "blackhole", door: doorDeaf, rules: [directions]rule{silent, silent}}
}

// NeverRead accepts connections and never reads from them. Existing connections are silent.
func NeverRead() Fault {
	silent := rule{unread: true, stopped: true}
	return Fault{name: "never read", rules: [directions]rule{silent, silent}}
}

// LoseRequests discards the data of clients. The server's connections exist and stay silent.
func LoseRequests() Fault {
	return Fault{name: "lose requests", rules: [directions]rule{up: {lost: true}}}
}

// LoseAnswers discards the data of the server: requests are executed, and get no response.
func LoseAnswers() Fault {
	return Fault{name: "lose answers", rules: [directions]rule{down: {lost: true}}}
}

// Hold delays the data of the server until the fault ends, as a buffering proxy. A full queue lets the server wait.
func Hold() Fault {
	return Fault{name: "hold", rules: [directions]rule{down: {stopped: true}}}
}

// Delay lets everything arrive later, by delay and up to jitter more or less, in order.
func Delay(delay, jitter time.Duration) Fault {
	late := rule{delay: delay, jitter: jitter}
	return Fault{name: fmt.Sprintf("delay %s±%s", delay, jitter), rules: [directions]rule{late, late}}
}

// Throttle lets so many bytes per second through in each direction, of all connections together; at least 1.
func Throttle(bytesPerSecond int) Fault {
	slow := rule{rate: max(bytesPerSecond, 1)}
	return Fault{name: fmt.Sprintf("throttle %d B/s", slow.rate), rules: [directions]rule{slow, slow}}
}

// CutAfter ends each connection after so many further bytes of the server; at least 1.
func CutAfter(bytes int64) Fault {
	return Fault{name: fmt.Sprintf("cut after %d B", bytes), rules: [directions]rule{down: {cut: max(bytes, 1)}}}
}

// Corrupt changes a bit of every n-th further byte of the server on a connection; n is at least 1.
func Corrupt(n int64) Fault {
	return Fault{name: fmt.Sprintf("corrupt every %d B", n), rules: [directions]rule{down: {corrupt: max(n, 1)}}}
}

// luck is between -1 and 1 and belongs to the piece.
func (r rule) due(read time.Time, luck float64) time.Time {
	return read.Add(r.delay + time.Duration(math.Round(luck*float64(r.jitter))))
}
