// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"go.uber.org/fx/fxevent"
)

// Time is a run time. In JSON it is a number of seconds.
type Time time.Duration

// String returns the time as people write it, or nothing for none.
func (t Time) String() string {
	d := time.Duration(t)
	switch {
	case d == 0:
		return ""
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(t).Seconds()) }

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(data []byte) error {
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err != nil {
		return err
	}
	*t = Time(seconds * float64(time.Second))
	return nil
}

// Stopwatch notes how long the functions of an App run while it is built. Give it to fx as its logger, and then to
// Graph.Time. It may be used by several goroutines.
type Stopwatch struct {
	mu    sync.Mutex // protects the fields
	runs  []run      // of constructors and invokes, in the order in which they ended
	began time.Time  // when the invoke that runs did
	spent time.Duration
}

// run is one call of a function.
type run struct {
	module, name string
	took         time.Duration
}

var _ fxevent.Logger = (*Stopwatch)(nil)

// LogEvent implements fxevent.Logger.
func (s *Stopwatch) LogEvent(event fxevent.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := event.(type) {
	case *fxevent.Run:
		s.spent += e.Runtime
		s.runs = append(s.runs, run{e.ModuleName, shortName(e.Name), e.Runtime})
	case *fxevent.Invoking:
		s.began, s.spent = time.Now(), 0
	case *fxevent.Invoked:
		took := max(time.Since(s.began)-s.spent, time.Nanosecond)
		s.runs = append(s.runs, run{e.ModuleName, shortName(e.FunctionName), took})
	}
}

// Time enters how long the functions of the graph ran. Of several with one name in one module each gets the time of
// its turn.
func (g *Graph) Time(s *Stopwatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := append([]run(nil), s.runs...)
	take := func(module, name string, to *Time) {
		for i, one := range runs {
			if one.module == module && strings.TrimSuffix(one.name, "()") == strings.TrimSuffix(name, "()") {
				*to, runs = Time(one.took), append(runs[:i], runs[i+1:]...)
				return
			}
		}
	}
	for _, c := range g.Constructors {
		take(c.Module, c.Name, &c.Took)
	}
	for i := range g.Invokes {
		take(g.Invokes[i].Module, g.Invokes[i].Name, &g.Invokes[i].Took)
	}
}
