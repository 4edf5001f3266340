// SPDX-License-Identifier: Apache-2.0

package probe

import "time"

// Pace is the time between probes of a remote in doubt, and the timeout of a request.
type Pace struct{ Period, Timeout time.Duration }

// A remote is in doubt after the loss of a connection, or a failed request of its app. Another one is probed when
// nothing was received on the TCP connection of the last probe for quietPeriods periods, and after restPeriods in any
// case. Received bytes prove that something works behind the connection, which may be a load balancer; only a probe
// proves that the API server is healthy and accepts the credential.
//
// With the defaults a silent remote is unreachable after 9.5 s and three timeouts, which is 18.5 s, and any other fault
// is found within 18 s and three timeouts.
const (
	quietPeriods = 2
	maxQuiet     = 10 * time.Second
	restPeriods  = 4
	maxRest      = 20 * time.Second
)

// retryProbeEvery counts from the beginning of a failed probe.
const retryProbeEvery = time.Second

// schedule decides when the next probe is due, without a clock.
type schedule struct {
	began   time.Time // when the last probe began
	last    time.Time // when the last probe ended
	ok      bool      // the last probe succeeded
	again   bool      // the next probe is due at once
	doubted bool      // a connection was lost, or a request failed, since the last probe began
	spread  float64   // of the pauses, in [0,1), so that the probes of many remotes are spread over the common moments
}

// due gets in heard when the API server was last heard on the connection of the last probe.
func (s *schedule) due(p Pace, urgent bool, heard time.Time) time.Time {
	period := spread(p.Period, 1, s.spread)
	switch {
	case s.again:
		return s.last
	case !s.ok:
		return s.last.Add(max(s.began.Add(retryProbeEvery).Sub(s.last), 0))
	case urgent:
		return s.last.Add(retryProbeEvery)
	case s.doubted:
		return s.last.Add(period)
	}
	quiet := max(period, spread(min(quietPeriods*p.Period, maxQuiet), 0.85, s.spread))
	rest := max(period, spread(min(restPeriods*p.Period, maxRest), 0.8, s.spread))
	return aligned(s.last.Add(min(max(heard.Sub(s.last), 0)+quiet, rest)), min(p.Period/stepParts, maxStep))
}

// Probes of healthy remotes begin at common moments, multiples of a fifth of the period or of maxStep: what happens at
// the same moment wakes the process once. 200 remotes at rest took 40 ms of processor time per second without this, and
// 15 ms with it.
const (
	stepParts = 5
	maxStep   = time.Second
)

// aligned returns the last multiple of step that is not after at.
func aligned(at time.Time, step time.Duration) time.Time {
	if step <= 0 {
		return at
	}
	return at.Add(-time.Duration(at.UnixNano() % int64(step)))
}

// spread returns a duration between least and a tenth more than least, as parts of d.
func spread(d time.Duration, least, where float64) time.Duration {
	return time.Duration(float64(d) * (least + where/10))
}
